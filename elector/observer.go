package elector

import (
	"context"
	"slices"
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
func (o *observer) maybe(a queryResult) bool {
	term := o.reported.term
	if o.reported.ending != notEnded || term.Token == 0 {
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
	if l == nil || o.reported.ending != endedReported || l.Token != o.reported.term.Token {
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

// ownEvents reports what the candidate of this process has done; false when the loop
// has ended.
func (o *observer) ownEvents(ctx context.Context) bool {
	if o.local == nil {
		return true
	}
	events, skipped := o.el.own.events.take(o.local)
	if skipped > 0 {
		o.inbox.signal() // how the term ended that was reported last may be among them: Redis shows it
		if !o.emit(ctx, Event{Version: eventVersion, Kind: EventSkipped, Count: skipped, Time: time.Now().Round(0)}) {
			return false
		}
	}
	for _, ev := range events {
		switch ev.Kind { //nolint:exhaustive // the others do not change who leads
		case EventElected:
			o.changes++
			if !o.ownElection(ctx, ev) {
				return false
			}
			continue
		case EventReleased:
			o.changes++
			if ev.Token != o.reported.term.Token || o.reported.ending != notEnded {
				continue // its end was reported
			}
			o.reported.ending = endedReported
		case EventAddress:
			o.changes++
			if ev.Token != o.reported.term.Token || o.reported.ending != notEnded || ev.Advertise == o.reported.term.Advertise {
				continue // it was reported, or the term's end was
			}
			o.reported.term.Advertise = ev.Advertise
		}
		if !o.emit(ctx, ev) {
			return false
		}
	}
	return true
}

// ownElection reports that this candidate leads: Redis granted it. How the term
// before it ended takes a little longer to arrive, and is reported first.
func (o *observer) ownElection(ctx context.Context, ev Event) bool {
	r := reading{highest: ev.Token, leader: &Leader{
		Candidate: ev.Candidate, Incarnation: ev.Incarnation, Advertise: ev.Advertise, Token: ev.Token, agreed: true, placed: true,
	}}
	if was := o.reported; was.begun {
		r.history = o.el.recent(ctx, waitForOldEnd)
	}
	for {
		events, is, wait := o.reported.merge(r, slices.Concat([]Event{ev}, o.inbox.waiting()), time.Now())
		o.reported = is
		for _, ev := range events {
			if !o.emit(ctx, ev) {
				return false
			}
		}
		if wait == 0 {
			return true
		}
		limit := time.NewTimer(wait)
		select {
		case <-o.inbox.arrived:
		case <-limit.C:
		case <-ctx.Done():
		}
		limit.Stop()
		if ctx.Err() != nil {
			return false
		}
	}
}
