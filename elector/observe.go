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
// Observing starts with the loop, blocks the loop between events, and leaves nothing
// behind when the loop ends, whether by break or with ctx. Each loop over the sequence
// starts anew, and first reports the current state.
//
// Nothing waits for a loop whose body is slow. Observe keeps up to 64 events of the
// candidate in this process; if there are more, an EventSkipped counts those that were
// left out, and the newest follow. Of other candidates it reports what the last 64 entries
// of the history show: 32 terms, or fewer where operators' pauses stand among them. So the
// last event always shows the current state.
//
// Observe notices within a lease that a leader vanished without a report. While the leader
// stays the same, it sends one request to each node per lease.
//
// On the Election that Elector.Election returns, Observe also reports what only this
// process knows of its candidate: EventStopping, EventOverrun, EventUnhealthy and
// EventHealthy. It reports the terms of this candidate the moment they begin and end.
//
// Leaders and tokens are those that Redis has: those in the lock, or, for
// terms that began and ended between two queries, in the history. A message on the
// channels makes an observer query earlier, and adds the time and the reason to a change
// that Redis confirmed. So a client that can only publish can fake neither a leader nor
// the end of a term.
//
// Each event follows from what Redis shows at that time:
//
//   - One EventElected may follow another, when the old leader's end was not reported yet.
//   - A leader that Redis could not show for a moment (EventVacant, or EventReleased when
//     its end was forged just then) is reported again, within about two leases.
//   - After a loss of data a new leader is reported even if its token is lower than the
//     one before.
func (el *Election) Observe(ctx context.Context) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		ctx, cancel := untilClosed(ctx, el.nodes)
		o := &observer{el: el, yield: yield, end: cancel, inbox: &inbox{election: el.name, own: el.own, arrived: make(chan struct{}, 1)}, lease: lease.DefaultLease}
		if el.own != nil {
			o.lease, o.local = el.own.cfg.Lease, el.own.subscribers.subscribe()
			defer el.own.subscribers.unsubscribe(o.local)
		}
		defer el.bus.Subscribe(el.keys.Events, 0, o.inbox.receive).Close()
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
	var answer <-chan reading // of the query under way; nil: none
	var due time.Time         // when to query next; a message can only bring it forward
	woken := false            // by a message, since the last query
	calm := reportDelay       // from a message to the query; grows while messages bring nothing new
	defer func() {
		o.end() // ends the query under way
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

// compare reports what changed, and returns the time until the next query if no message comes.
func (o *observer) compare(ctx context.Context, a reading) time.Duration {
	if !o.ownEvents(ctx) {
		return 0
	}
	if a.err != nil {
		o.inbox.keep(a.messages)
		o.expire(ctx)
		return o.timing().RenewEvery()
	}
	if a.changes != o.changes { // the answer may be older than the candidate's events reported meanwhile
		o.inbox.keep(a.messages)
		return 0
	}
	leader := a.status.Leader
	if leader == nil && o.maybe(a) || leader != nil && o.el.own.is(leader.Incarnation) && o.el.own.validTerm() == nil {
		// In the second case the lock belongs to the candidate in this process: either its claim
		// is not decided yet, or its term has ended. The candidate's own events show which.
		o.expire(ctx)
		return o.timing().RetryEvery()
	}
	a.early = o.waitForReleased()
	o.confirm(leader)
	a.stays = o.stillRenewed(leader)
	events, is, wait := o.reported.merge(a, time.Now())
	o.reported = is
	for _, ev := range events {
		if !o.emit(ctx, ev) {
			return 0
		}
	}
	switch {
	case wait > 0:
		o.inbox.keep(a.messages)
		return wait
	case leader != nil && !leader.holder.TokenAgreed: // the next renewal brings it to all nodes
		return o.timing().RenewEvery()
	case leader != nil:
		return min(o.lease, leader.LeaseLeft+reportDelay)
	default:
		return o.lease
	}
}
