package elector

import (
	"context"
	"slices"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/lease"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
	"github.com/mandate-dev/mandate/elector/internal/standby"
)

// follower waits until it is time to claim. A claim that becomes due when the leader's lease would end is made by the
// schedule's goroutine, together with those of other elections: nearly always it only shows that the leader is still there, and
// waking two goroutines for that costs more than the claim. Anything else is left to the state machine. From Waiter.Due until
// Held, Shown or Wake the machine's fields belong to that claim: Waiter.Wait does not return in between.
type follower struct {
	m    *machine
	w    *standby.Waiter
	task task
	sent lease.Stamp     // when the newest claim of its own was sent
	met  protocol.Answer // of all nodes to the newest claim of the state machine; zero: they differed, or there is more to see to
}

// standBy makes what waits for the time to claim.
func (m *machine) standBy() *follower {
	f := &follower{m: m}
	f.task.fire = f.fire
	f.w = standby.New(standby.Config{
		Settings: standby.Settings{
			Incarnation: m.incarnation, Nodes: m.nodes.Len(), Lease: m.cfg.Lease,
			RetryEvery: m.timing.RetryEvery(), ReservedFor: m.reservedFor(),
		},
		Bus: m.bus, Alarm: f, Keys: m.keys, ParseEvent: m.wakeMessageIn, NotSubscribed: m.logNotSubscribed, Listening: m.listening,
	})
	return f
}

// Set has a claim made in that time.
func (f *follower) Set(in, slack time.Duration) {
	f.m.claims.remove(&f.task)
	f.m.claims.add(&f.task, in, 0, slack)
}

// Stop has none made.
func (f *follower) Stop() { f.m.claims.remove(&f.task) }

// wait blocks until it is time to claim, or a claim that was made meanwhile needs the state machine: it returns that one.
func (f *follower) wait(ctx context.Context) *dueClaim {
	changed := f.m.probes.changes().candidate
	return f.undecided(ctx, f.w.Wait(ctx, changed, f.m.recordoned, f.m.peers.PauseEnded()))
}

// undecided is the claim that these votes are of; nil: there was none. A candidate that must not lead by now gives back what it
// was granted.
func (f *follower) undecided(ctx context.Context, votes *quorum.Tally) *dueClaim {
	m := f.m
	switch {
	case votes == nil:
		return nil
	case ctx.Err() != nil || !m.probes.fit() || m.cordoned() != nil:
		m.voter.GiveBack(*votes)
		return nil
	}
	return &dueClaim{f.sent, votes}
}

// fire claims when that is due, on a goroutine that does so for many elections.
func (f *follower) fire(at *lease.Stamp) {
	if !f.w.Due() {
		return
	}
	m := f.m
	if f.met.Status != protocol.Held || !m.probes.fit() || m.cordoned() != nil || !m.voter.Acquainted(!m.since.IsZero()) {
		f.w.Wake()
		return
	}
	if !m.clock.SameAs(&m.claims.clock) {
		at = m.clock.Anchor()
	}
	f.sent = *at
	if !m.voter.StartClaim(m.hint(), f.take) {
		f.w.Wake()
	}
}

// take takes the votes, on the goroutine of their call, which serves other elections too: it must not block.
func (f *follower) take(t quorum.Tally) {
	if f.leadsOn(t) {
		f.m.voter.Lost()
		f.m.noteHolder(t)
		if f.w.Held(t) {
			return
		}
	}
	t = t.Clone()
	f.w.Shown(&t)
}

// learn keeps what a claim has shown that was lost, if others that show the same need no second look.
func (f *follower) learn(t quorum.Tally) {
	f.met = t.Answers[0]
	if !f.leadsOn(t) || !f.m.calm() || f.m.memory.differs != "" || f.m.outdated.Load() != nil {
		f.met = protocol.Answer{}
	}
}

// leadsOn reports whether votes show no more than the leader that the last claim of the state machine has met.
func (f *follower) leadsOn(t quorum.Tally) bool {
	return !slices.ContainsFunc(t.Answers, func(a protocol.Answer) bool {
		return a.Status != protocol.Held || a.Holder != f.met.Holder || a.Highest != f.met.Highest || a.Outdated
	})
}

// noteHolder takes what such votes show.
func (m *machine) noteHolder(t quorum.Tally) {
	m.memory.learn(t)
	m.memory.answeredAt = m.clock.Now()
	left := make([]time.Duration, 0, 8)
	for _, a := range t.Answers {
		left = append(left, a.Left)
	}
	m.noteLeft(m.cfg.Lease, left)
}

// wakeMessageIn reads an event as those on standby need it.
func (c *candidate) wakeMessageIn(payload string) (m protocol.WakeMessage, ok bool) {
	ev, err := c.received.parse(payload)
	if err != nil || ev.Election != c.cfg.Election {
		return m, false
	}
	switch ev.Kind {
	case EventElected:
		return protocol.WakeMessage{Elected: true, Token: ev.Token}, true
	case EventReleased:
		m.Token = ev.Token
		if ev.Next != "" {
			m.First = protocol.Reservation(ev.Next)
		}
		return m, true
	default:
		return m, false
	}
}
