package elector

import (
	"context"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/lease"
)

// observer follows one election for one loop. The loop's goroutine owns all of it; the
// inbox and the subscription to the candidate's events guard themselves.
type observer struct {
	el    *Election
	yield func(Event) bool
	end   context.CancelFunc // of the loop: after it nothing is yielded
	local *subscription      // what the candidate of this process does itself; nil: there is none
	lease time.Duration      // the candidates', as far as is known: it sets the pace
	inbox *inbox

	reported reported
	changes  int       // of this process's candidate, that were reported
	emitted  bool      // something, since the last query
	until    time.Time // when the lease ends that was seen last; zero: there was no leader
	left     time.Time // when the lock of a term was first seen after its end had been reported; zero: it was not
}

// timing is the pace of a candidate with that lease.
func (o *observer) timing() lease.Timing { return Config{Lease: o.lease}.withDefaults().timing() }

// emit hands an event to the loop's body; false when the loop has ended.
func (o *observer) emit(ctx context.Context, ev Event) bool {
	if ctx.Err() != nil {
		return false
	}
	ev.Election, o.emitted = o.el.name, true
	if !o.yield(ev) {
		o.end()
		return false
	}
	return true
}

// maybe reports whether the leader that was reported may lead although no majority
// shows it: nodes did not answer, or it is this candidate, by the clock.
func (o *observer) maybe(a answered) bool {
	term := o.reported.term
	if o.reported.ending != open || term.Token == 0 {
		return false
	}
	if own := o.el.own.validTerm(); own != nil && own.token == term.Token && o.el.own.is(term.Incarnation) {
		return true
	}
	return a.status.mayLead != "" && a.status.mayLead == term.Incarnation
}

// stays reports whether the lock of a term whose end was reported is there for longer than
// its lease: it is being renewed, and the report was forged.
func (o *observer) stays(l *Leader) bool {
	if l == nil || o.reported.ending != closed || l.Token != o.reported.term.Token {
		o.left = time.Time{}
		return false
	}
	if o.left.IsZero() {
		o.left = time.Now()
	}
	return time.Since(o.left) > o.lease
}

// early is how long the end of the leader that was reported last is waited for when its
// lease was not over: then it released the lock, and only a busy machine delays its report.
func (o *observer) early() time.Duration {
	if time.Now().Before(o.until) {
		return min(o.timing().RetryEvery(), waitForLateEnd)
	}
	return 0
}

// confirm notes for how long the answer holds.
func (o *observer) confirm(l *Leader) {
	o.until = time.Time{}
	if l != nil {
		o.until = time.Now().Add(l.LeaseLeft)
		if o.local == nil && l.lease > 0 {
			o.lease = l.lease
		}
	}
	o.el.unknown.Store(false)
}

// expire notes that it is unknown who leads, once the lease that was seen last has
// run out: a caller must not be sent to a leader that is long gone.
func (o *observer) expire(ctx context.Context) {
	if ctx.Err() == nil && !o.until.IsZero() && time.Now().After(o.until) {
		o.el.unknown.Store(true)
	}
}
