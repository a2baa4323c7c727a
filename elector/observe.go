package elector

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/lease"
)

// Observe reports the election: who leads now (EventElected or EventVacant), then
// every change in order, until ctx or the loop ends, or the Quorum is closed.
//
//	for ev := range orders.Observe(ctx) {
//		fmt.Println(ev.Kind, ev.Candidate, ev.Token)
//	}
//
// Observing is what the loop does: it begins with the loop, blocks in it between the
// events, and leaves nothing behind when it ends, by break or with ctx. Each loop
// over the sequence begins anew, with how things stand.
//
// Nothing waits for a loop whose body is slow. What comes meanwhile is kept within
// bounds (64 events of this candidate, and the last 32 terms); when these don't suffice
// an EventSkipped counts the events that were left out, and the newest ones follow. So
// the last event always shows how things stand. A leader that vanished without a report
// is noticed within a lease; a steady one costs a request to each node per lease. An
// address that the leader changes (EventAddress) is reported when a renewal has brought
// it to a majority of the nodes.
//
// An Election of Elector.Election reports also what only this process knows of its
// candidate: EventStopping, EventOverrun, EventUnhealthy and EventHealthy; and its
// terms the moment they begin and end.
//
// Leaders, tokens and addresses are those that Redis has: the lock's, or the
// history's for terms that came and went in between. What is
// published on the channels makes an observer query earlier, and adds the time and
// the reason to a change that Redis confirmed; a client that can only publish can't have
// a leader reported, nor an end.
//
// Each change follows from what Redis shows then. So one EventElected may follow another
// when the old leader's end was never reported; a leader that Redis could not
// show for a moment (EventVacant, or EventReleased when its end was forged just then) is
// reported again, within about two leases; and after a loss of data a new leader is
// reported although its token is lower than the one before.
func (el *Election) Observe(ctx context.Context) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		ctx, cancel := untilClosed(ctx, el.nodes)
		o := &observer{el: el, yield: yield, end: cancel, inbox: newInbox(el.name), lease: lease.DefaultLease}
		if el.own != nil {
			o.lease, o.local = el.own.lease, el.own.events.subscribe()
			defer el.own.events.unsubscribe(o.local)
		}
		defer el.bus.Subscribe(el.keys.Events, o.inbox.receive)()
		o.run(ctx)
	}
}

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

func (o *observer) run(ctx context.Context) {
	query := time.NewTimer(0)
	defer query.Stop()
	var local <-chan struct{}
	if o.local != nil {
		local = o.local.wake
	}
	var answer <-chan answered // of the open query
	var due time.Time          // when to query; a message can't put it off
	woken := false             // by a message, since the last query
	calm := reportDelay        // longer while messages bring nothing new
	defer func() {
		o.end() // also of a loop that was left
		if answer != nil {
			<-answer
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case <-local:
			if !o.ownEvents(ctx) {
				return
			}
		case <-o.inbox.arrived:
			woken = true
			if answer == nil && time.Until(due) > calm {
				due = time.Now().Add(calm)
				query.Reset(calm)
			}
		case <-query.C:
			answer, o.emitted = o.el.query(ctx, o.reported, o.changes, o.inbox.take()), false
			if !woken {
				calm = reportDelay
			}
			woken = false
		case a := <-answer:
			answer = nil
			next := o.compare(ctx, a)
			if ctx.Err() != nil {
				return
			}
			if calm = min(2*calm, o.timing().RetryEvery()); o.emitted {
				calm = reportDelay
			}
			if woken {
				next = min(next, calm)
			}
			due = time.Now().Add(next)
			query.Reset(next)
		}
	}
}

// compare reports what changed; it returns when to query again if no message comes.
func (o *observer) compare(ctx context.Context, a answered) time.Duration {
	if !o.ownEvents(ctx) {
		return 0
	}
	if a.err != nil {
		o.inbox.putBack(a.messages)
		o.expire(ctx)
		return o.timing().RenewEvery
	}
	if a.changes != o.changes { // the answer may be older than what was reported since
		o.inbox.putBack(a.messages)
		return 0
	}
	leader := a.status.Leader
	if leader == nil && o.maybe(a) || leader != nil && o.el.own.is(leader.Incarnation) && o.el.own.validTerm() == nil {
		// The latter is a claim of ours that is not decided, or what is left of a term:
		// our own events show which.
		o.expire(ctx)
		return o.timing().RetryEvery()
	}
	r := a.reading()
	r.early = o.early()
	o.confirm(leader)
	r.stays = o.stays(leader)
	events, is, wait := o.reported.merge(r, a.messages, time.Now())
	o.reported = is
	for _, ev := range events {
		if !o.emit(ctx, ev) {
			return 0
		}
	}
	switch {
	case wait > 0:
		o.inbox.putBack(a.messages)
		return wait
	case leader != nil && (!leader.agreed || !leader.placed): // the next renewal will show it
		return o.timing().RenewEvery
	case leader != nil:
		return min(o.lease, leader.LeaseLeft+reportDelay)
	default:
		return o.lease
	}
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

// ownEvents reports what the candidate of this process has done; false when the loop
// has ended.
func (o *observer) ownEvents(ctx context.Context) bool {
	if o.local == nil {
		return true
	}
	events, skipped := o.el.own.events.take(o.local)
	if skipped > 0 && !o.emit(ctx, Event{Version: eventVersion, Kind: EventSkipped, Count: skipped, Time: time.Now().Round(0)}) {
		return false
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
			if ev.Token != o.reported.term.Token || o.reported.ending != open {
				continue // its end was reported
			}
			o.reported.ending = closed
		case EventAddress:
			o.changes++
			if ev.Token != o.reported.term.Token || o.reported.ending != open || ev.Advertise == o.reported.term.Advertise {
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
