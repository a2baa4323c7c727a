package elector

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/pubsub"
)

// Observe reports the election: who leads now (Elected or Vacant), then every
// change in order, until ctx ends; then the channel is closed. It works whether
// or not this candidate takes part, and never delays it: an observer that falls
// behind is told by Skipped how much it missed. A leader that vanished without a
// word is noticed within a lease.
//
// Leaders, tokens and addresses are those that Redis has: the lock's, or the
// history's for terms that came and went in between (the last 32 at most). What is
// published on the channels makes an observer ask earlier, and adds the time and
// the reason to a change that Redis confirmed; whoever can only publish can't have
// a leader reported, nor an end.
//
// Each change follows from what Redis says then. So one Elected may follow another
// when the old leader's end was reported by nobody; a leader that Redis could not
// show for a moment (Vacant) is reported again; and after a loss of data a new
// leader is reported although its token is lower than the one before.
func (e *Elector) Observe(ctx context.Context) <-chan Event {
	o := &observer{
		e: e, out: make(chan Event), local: e.feed.subscribe(), wake: make(chan struct{}, 1),
	}
	stop := e.quorum.bus.Subscribe(e.keys.Events, o.receive)
	go func() {
		defer close(o.out)
		defer e.feed.unsubscribe(o.local)
		defer stop()
		o.run(ctx)
	}()
	return o.out
}

// observer follows one election for one reader. Its goroutine owns all but what mu
// guards.
type observer struct {
	e     *Elector
	out   chan Event
	local *subscription // what this candidate does itself
	wake  chan struct{}

	mu       sync.Mutex
	messages []Event // that came since the last reading, and are not used up

	reported reported
	changes  int       // of this candidate's own, that were reported
	emitted  bool      // something, since the last query
	until    time.Time // when the lease ends that was seen last; zero: nobody led
}

// receive runs on the subscription's goroutine.
func (o *observer) receive(s pubsub.Signal) {
	if s.Kind == pubsub.Message {
		ev, err := ParseEvent(s.Payload)
		if err != nil || ev.Election != o.e.cfg.Election || ev.Kind != EventElected && ev.Kind != EventReleased {
			return
		}
		o.keep(nil, ev)
	}
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// keep adds messages to those that wait for the next reading, older ones before;
// the newest stay when there are too many.
func (o *observer) keep(older []Event, newer ...Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.messages = slices.Concat(older, o.messages, newer)
	if more := len(o.messages) - feedBuffer; more > 0 {
		o.messages = slices.Clone(o.messages[more:])
	}
}

func (o *observer) run(ctx context.Context) {
	query := time.NewTimer(0)
	defer query.Stop()
	var answer <-chan answered // of the open query
	var due time.Time          // when to query; a message can't put it off
	woken := false             // by a message, since the last query
	calm := settle             // longer while messages bring nothing new
	defer func() {
		if answer != nil {
			<-answer // ctx has ended, and with it the query
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.local.wake:
			if !o.ownEvents(ctx) {
				return
			}
		case <-o.wake:
			woken = true
			if answer == nil && time.Until(due) > calm {
				due = time.Now().Add(calm)
				query.Reset(calm)
			}
		case <-query.C:
			answer, o.emitted = o.query(ctx), false
			if !woken {
				calm = settle
			}
			woken = false
		case a := <-answer:
			answer = nil
			next := o.compare(ctx, a)
			if ctx.Err() != nil {
				return
			}
			if calm = min(2*calm, o.e.timing.RetryEvery()); o.emitted {
				calm = settle
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
		o.keep(a.messages)
		o.expire(ctx)
		return o.e.timing.RenewEvery
	}
	if a.changes != o.changes { // the answer may be older than what was reported since
		o.keep(a.messages)
		return 0
	}
	leader := a.status.Leader
	if leader == nil && o.maybe(a) || leader != nil && leader.Incarnation == o.e.incarnation && o.e.Term() == nil {
		// The latter is a claim of ours that is not decided, or what is left of a term:
		// our own events tell.
		o.expire(ctx)
		return o.e.timing.RetryEvery()
	}
	o.confirm(leader)
	events, is, wait := o.reported.merge(a.reading(), a.messages, time.Now().Round(0))
	o.reported = is
	for _, ev := range events {
		if !o.emit(ctx, ev) {
			return 0
		}
	}
	switch {
	case wait > 0:
		o.keep(a.messages)
		return wait
	case leader != nil && !leader.agreed: // the first renewal will tell
		return o.e.timing.RenewEvery
	case leader != nil:
		return min(o.e.cfg.Lease, leader.LeaseLeft+settle)
	default:
		return o.e.cfg.Lease
	}
}

// maybe tells whether the leader that was reported may lead although no majority
// shows it: nodes did not answer, or it is this candidate, by the clock.
func (o *observer) maybe(a answered) bool {
	term := o.reported.term
	if o.reported.ending != open || term.Token == 0 {
		return false
	}
	if own := o.e.Term(); own != nil && own.token == term.Token && term.Incarnation == o.e.incarnation {
		return true
	}
	return a.status.mayLead != "" && a.status.mayLead == term.Incarnation
}

// ownEvents reports what this candidate has done; false when ctx ended.
func (o *observer) ownEvents(ctx context.Context) bool {
	events, skipped := o.e.feed.take(o.local)
	for _, ev := range events {
		switch ev.Kind { //nolint:exhaustive // the others change nobody's leadership
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
		}
		if !o.emit(ctx, ev) {
			return false
		}
	}
	if skipped == 0 {
		return true
	}
	return o.emit(ctx, Event{Version: eventVersion, Kind: EventSkipped, Count: skipped, Time: time.Now().Round(0)})
}

// ownElection reports that this candidate leads: Redis granted it. How the term
// before it ended takes a little longer to arrive, and is reported first.
func (o *observer) ownElection(ctx context.Context, ev Event) bool {
	limit := time.NewTimer(waitForOldEnd)
	defer limit.Stop()
	r := reading{highest: ev.Token, leader: &Leader{
		Candidate: ev.Candidate, Incarnation: ev.Incarnation, Advertise: ev.Advertise, Token: ev.Token, agreed: true,
	}}
	if was := o.reported; was.begun {
		r.history = o.e.history(ctx, waitForOldEnd)
	}
	for {
		o.mu.Lock()
		messages := o.messages
		o.mu.Unlock()
		events, is, wait := o.reported.merge(r, messages, ev.Time)
		o.reported = is
		for _, ev := range events {
			if !o.emit(ctx, ev) {
				return false
			}
		}
		if wait == 0 {
			return true
		}
		o.reported.waited = false
		select {
		case <-o.wake:
		case <-limit.C:
			o.reported.waited = true
		case <-ctx.Done():
			return false
		}
	}
}

// emit sends an event; false when ctx ended.
func (o *observer) emit(ctx context.Context, ev Event) bool {
	ev.Election = o.e.cfg.Election
	select {
	case o.out <- ev:
		o.emitted = true
		return true
	case <-ctx.Done():
		return false
	}
}
