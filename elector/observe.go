package elector

import (
	"context"
	"iter"
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
// bounds (64 events of this candidate, and the last 64 entries of the history: 32 terms, or
// fewer where operators' pauses stand among them); when these don't suffice
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
		o := &observer{el: el, yield: yield, end: cancel, inbox: newInbox(el.name, el.own), lease: lease.DefaultLease}
		if el.own != nil {
			o.lease, o.local = el.own.lease, el.own.events.subscribe()
			defer el.own.events.unsubscribe(o.local)
		}
		defer el.bus.Subscribe(el.keys.Events, o.inbox.receive)()
		o.run(ctx)
	}
}

func (o *observer) run(ctx context.Context) {
	query := time.NewTimer(0)
	defer query.Stop()
	var local <-chan struct{}
	if o.local != nil {
		local = o.local.wake
	}
	var answer <-chan queryResult // of the open query
	var due time.Time             // when to query; a message can't put it off
	woken := false                // by a message, since the last query
	calm := reportDelay           // longer while messages bring nothing new
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
func (o *observer) compare(ctx context.Context, a queryResult) time.Duration {
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
