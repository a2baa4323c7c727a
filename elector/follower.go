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

// follower waits until it is time to claim. When the leader's lease would end, the schedule's
// goroutine makes a due claim, together with those of other elections: nearly always it only shows
// that the leader is still there, and waking two goroutines for that costs more than the claim.
// Everything else is left to the state machine. From Waiter.Due until Held, Shown or Wake the
// machine's fields belong to the due claim: Waiter.Wait does not return in between.
type follower struct {
	m        *machine
	w        *standby.Waiter
	task     task
	sent     lease.Stamp     // when the newest due claim was sent
	expected protocol.Answer // of all nodes to the state machine's newest claim; zero: they differed, or the state machine must make the next one too
}

// standBy makes a follower, which subscribes to elections and releases.
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

// Set schedules the due claim after in, or up to slack later, in place of one scheduled before.
func (f *follower) Set(in, slack time.Duration) {
	f.m.claims.remove(&f.task)
	f.m.claims.add(&f.task, in, 0, slack)
}

// Stop cancels the due claim that is scheduled.
func (f *follower) Stop() { f.m.claims.remove(&f.task) }

// wait blocks until the state machine has to claim or to check again whether it may, or until a due
// claim needs a decision of the state machine: wait returns that claim.
func (f *follower) wait(ctx context.Context) *dueClaim {
	changed := f.m.probes.changes().candidate
	return f.undecided(ctx, f.w.Wait(ctx, changed, f.m.claimWanted, f.m.peers.PauseEnded()))
}

// undecided returns the due claim that got these votes, nil if there was none. A candidate that must
// not lead by now gives back what it was granted.
func (f *follower) undecided(ctx context.Context, votes *quorum.Tally) *dueClaim {
	m := f.m
	switch {
	case votes == nil:
		return nil
	case ctx.Err() != nil || !m.probes.fit():
		m.voter.GiveBack(*votes)
		return nil
	}
	return &dueClaim{f.sent, votes}
}

// fire makes a due claim, on a goroutine that does so for many elections. It wakes the state machine
// instead if this candidate may not claim, or if the result would need the state machine anyway.
func (f *follower) fire(at *lease.Stamp) {
	if !f.w.Due() {
		return
	}
	m := f.m
	if f.expected.Status != protocol.Held || !m.probes.fit() || !m.voter.Acquainted(!m.since.IsZero()) {
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

// take handles the votes on a due claim. It runs on the goroutine of the call that carried them,
// which serves other elections too, so it must not block.
func (f *follower) take(t quorum.Tally) {
	if f.showsSameLeader(t) {
		f.m.voter.Lost()
		f.m.noteHolder(t)
		if f.w.ClaimUnchanged(t) {
			return
		}
	}
	t = t.Clone()
	f.w.ClaimChanged(&t)
}

// learn remembers what a lost claim has shown, if due claims that show the same don't need the
// state machine.
func (f *follower) learn(t quorum.Tally) {
	f.expected = t.Answers[0]
	if !f.showsSameLeader(t) || !f.m.calm() || f.m.memory.differs != "" {
		f.expected = protocol.Answer{}
	}
}

// showsSameLeader reports whether the votes show only the leader that the state machine's last claim met.
func (f *follower) showsSameLeader(t quorum.Tally) bool {
	return !slices.ContainsFunc(t.Answers, func(a protocol.Answer) bool {
		return a.Status != protocol.Held || a.Holder != f.expected.Holder
	})
}

// noteHolder records what votes show for which showsSameLeader is true.
func (m *machine) noteHolder(t quorum.Tally) {
	m.memory.learn(t)
	m.memory.answeredAt = m.clock.Now()
	left := make([]time.Duration, 0, 8)
	for _, a := range t.Answers {
		left = append(left, a.Left)
	}
	m.noteLeft(m.cfg.Lease, left)
}

// wakeMessageIn parses an event of this election into what a waiting follower needs of it; ok is
// false for other messages.
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
