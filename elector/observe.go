package elector

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// Observe reports the election: who leads now (Elected or Vacant), then every
// change in order, until ctx ends; then the channel is closed. It works whether
// or not this candidate takes part, and never delays it: an observer that falls
// behind is told by Skipped how much it missed. Events of other candidates
// are reported after Redis confirmed them; a leader that vanished without a word
// is noticed within a lease.
func (e *Elector) Observe(ctx context.Context) <-chan Event {
	o := &observer{
		e: e, out: make(chan Event), local: e.feed.subscribe(), poke: make(chan struct{}, 1),
	}
	stop := e.quorum.nodes.Watch(e.keys.Events, o.hear)
	go func() {
		defer close(o.out)
		defer e.feed.unsubscribe(o.local)
		defer stop()
		o.run(ctx)
	}()
	return o.out
}

// settle is how long an observer waits after a message for those that belong to
// it: the winner's "elected" may overtake the "released" that made room for it.
const settle = 5 * time.Millisecond

type observer struct {
	e     *Elector
	out   chan Event
	local *subscription
	poke  chan struct{}

	mu      sync.Mutex
	told    []Event // by messages, not confirmed yet
	skipped int

	elected, released uint64 // the newest token reported as such
	missed            bool   // the leader was gone when last asked, without a word
	first             bool   // the snapshot was given
	idle              bool   // nothing was reported since the last question

	leased time.Time // until when the leader leads that was seen last; zero: there was none
}

func (o *observer) hear(s quorum.Signal) {
	if s.Kind == quorum.Message {
		ev, err := ParseEvent(s.Payload)
		if err != nil || ev.Election != o.e.cfg.Election || ev.Kind != Elected && ev.Kind != Released {
			return
		}
		o.mu.Lock()
		if len(o.told) < feedBuffer {
			o.told = append(o.told, ev)
		} else {
			o.skipped++
		}
		o.mu.Unlock()
	}
	o.nudge()
}

func (o *observer) nudge() {
	select {
	case o.poke <- struct{}{}:
	default:
	}
}

func (o *observer) run(ctx context.Context) {
	ask := time.NewTimer(0)
	defer ask.Stop()
	var answer <-chan truth // of the open question
	var due time.Time       // when to ask; a message can't put it off
	heard := false          // something since the last question
	calm := settle          // longer while messages tell nothing new
	defer func() {
		if answer != nil {
			<-answer // ctx has ended, and with it the question
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.local.wake:
			events, skipped := o.e.feed.take(o.local)
			for _, ev := range events {
				if ev.Kind == Elected && o.elected > o.released {
					o.lastWords(ctx)
				}
				if !o.report(ctx, ev) {
					return
				}
			}
			if !o.skip(ctx, skipped) {
				return
			}
		case <-o.poke:
			heard = true
			if answer == nil && time.Until(due) > calm {
				due = time.Now().Add(calm)
				ask.Reset(calm)
			}
		case <-ask.C:
			answer, o.idle = o.question(ctx), true
			if !heard {
				calm = settle
			}
			heard = false
		case t := <-answer:
			answer = nil
			next := o.learn(ctx, t)
			if ctx.Err() != nil {
				return
			}
			if calm = min(2*calm, o.e.timing.RetryEvery()); !o.idle {
				calm = settle
			}
			if heard {
				next = min(next, calm)
			}
			due = time.Now().Add(next)
			ask.Reset(next)
		}
	}
}

// patience is how long an observer waits for the word of a term's end when it knows of
// the next one already; on a busy machine it takes that long.
const patience = 8 * settle

// lastWords reports, before this candidate's own election, how the term before
// it ended: that message takes a little longer to arrive.
func (o *observer) lastWords(ctx context.Context) {
	limit := time.NewTimer(patience)
	defer limit.Stop()
	defer o.nudge() // what else was heard is still to be looked at
	for {
		o.mu.Lock()
		i := slices.IndexFunc(o.told, func(ev Event) bool { return ev.Kind == Released && ev.Token == o.elected })
		var ev Event
		if i >= 0 {
			ev = o.told[i]
		}
		o.mu.Unlock()
		if i >= 0 {
			o.report(ctx, ev)
			return
		}
		select {
		case <-o.poke:
		case <-limit.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// learn reports what changed; it returns when to ask again if nothing is heard.
func (o *observer) learn(ctx context.Context, t truth) time.Duration {
	told, st := t.told, t.Status
	if t.err != nil {
		o.mu.Lock() // what was told is still to be confirmed
		o.told = append(told, o.told...)
		o.skipped += t.skipped
		o.mu.Unlock()
		o.doubt(ctx)
		return o.e.timing.RenewEvery
	}
	o.trust(st.Leader)
	if !o.skip(ctx, t.skipped) {
		return 0
	}
	if o.expectsWord(told, st) {
		o.mu.Lock()
		o.told = append(told, o.told...)
		o.mu.Unlock()
		return patience
	}
	for _, ev := range o.confirmed(told, st) {
		if !o.report(ctx, ev) {
			return 0
		}
	}
	if st.Leader != nil {
		o.report(ctx, o.seen(st.Leader))
		return min(o.e.cfg.Lease, st.Leader.Left+settle)
	}
	if o.elected > o.released && !o.missed {
		o.missed = true // its "released" may still be under way
		return 4 * settle
	}
	if o.elected > o.released || !o.first {
		ev := Event{Version: eventVersion, Kind: Vacant, Election: o.e.cfg.Election, Token: o.elected, Time: time.Now().Round(0)}
		o.report(ctx, ev)
	}
	return o.e.cfg.Lease
}

// expectsWord tells, once per leader, whether a new leader is there before the
// word of the old one's end: that is waited for a little.
func (o *observer) expectsWord(told []Event, st Status) bool {
	if o.missed || st.Leader == nil || st.Leader.Token <= o.elected || o.elected <= o.released {
		return false
	}
	o.missed = true
	return !slices.ContainsFunc(told, func(ev Event) bool { return ev.Kind == Released && ev.Token == o.elected })
}

// confirmed picks the messages that tell something new and that the counters of
// Redis allow, in order: a forged token above them is dropped.
func (o *observer) confirmed(told []Event, st Status) []Event {
	var highest uint64
	for _, n := range st.Nodes {
		highest = max(highest, n.Fence)
	}
	told = slices.DeleteFunc(told, func(ev Event) bool {
		if ev.Token > highest || !o.first {
			return true
		}
		if st.Leader != nil && ev.Token == st.Leader.Token {
			return ev.Kind == Released || ev.Candidate != st.Leader.Candidate // it still leads
		}
		return false
	})
	slices.SortStableFunc(told, func(a, b Event) int {
		switch {
		case a.Token != b.Token && a.Token < b.Token:
			return -1
		case a.Token != b.Token:
			return 1
		case a.Kind == b.Kind:
			return 0
		case a.Kind == Elected:
			return -1
		}
		return 1
	})
	return told
}

func (o *observer) seen(l *Leader) Event {
	at := l.Since
	if at.IsZero() {
		at = time.Now().Round(0)
	}
	return Event{
		Version: eventVersion, Kind: Elected, Election: o.e.cfg.Election,
		Candidate: l.Candidate, Advertise: l.Advertise, Token: l.Token, Time: at,
	}
}

// report sends an event unless it was sent before; false when ctx ended.
func (o *observer) report(ctx context.Context, ev Event) bool {
	switch ev.Kind { //nolint:exhaustive // only these are reported once
	case Elected:
		if ev.Token <= o.elected {
			return true
		}
		o.elected, o.first, o.missed = ev.Token, true, false
	case Released:
		if ev.Token <= o.released || ev.Token < o.elected {
			return true
		}
		o.elected, o.released, o.first, o.missed = ev.Token, ev.Token, true, false
	case Vacant:
		o.released, o.first, o.missed = max(o.released, ev.Token), true, false
	}
	select {
	case o.out <- ev:
		o.idle = false
		return true
	case <-ctx.Done():
		return false
	}
}

func (o *observer) skip(ctx context.Context, n int) bool {
	if n == 0 {
		return true
	}
	return o.report(ctx, Event{Version: eventVersion, Kind: Skipped, Election: o.e.cfg.Election, Count: n, Time: time.Now().Round(0)})
}
