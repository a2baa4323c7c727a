package elector

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// release gives the lock back, after the work has returned. The nodes publish and record the end of the term in
// the same step. Followers wait for that, so it leaves before this end is logged, unless the work took time to stop.
func (m *machine) release(ctx context.Context, ended *Ended) {
	t := m.serving
	t.lost.Store(true)
	t.renews.Store(false) // a renewal that is still under way finds the lock released, if it comes after the release
	m.renewal.timer.Stop()
	m.probes.disarm()
	heir := m.heir()
	ev := m.event(EventReleased, t, ended)
	ev.Next, ev.Held = heir.Incarnation, t.held()
	r := m.voter.Releasing(t.token, heir, ev.encode())
	r.Send(m.cfg.Lease)
	yield() // it leaves now
	m.becomeStopping(ended)
	if m.outcome == nil { // lead has seen that it had returned
		m.returned(<-t.returned)
	}
	lost := slices.Contains([]Reason{ReasonExpired, ReasonLost, ReasonDataLost}, ended.Reason)
	t.unreleased = m.giveBack(r, lost && t.stopped == nil && ctx.Err() == nil)
	if t.unreleased == nil {
		m.supervisor.Released(m.supervised(t))
	}
	m.subscribers.publish(ev)
	m.probes.awaitDisarmed()
}

// giveBack sends a release, in the background again until all nodes have answered it or the lock has
// lapsed. It blocks until a majority has, unless this candidate campaigns again at once: its next claim
// takes over the locks that it still holds.
func (m *machine) giveBack(r *quorum.Release, campaigns bool) error {
	token, over, clock, sent := m.serving.token, m.ctx, m.clock, m.renewal.sent // a later Run has its own
	// For how long the nodes may still hold the lock: an unconfirmed renewal may have prolonged it.
	lapsesIn := func() time.Duration {
		elapsed, ok := clock.Since(sent)
		if !ok { // the clocks contradict each other
			return 0
		}
		return m.cfg.Lease + m.timing.Drift() - elapsed
	}
	tally := r.Try(m.cfg.Lease)
	switch {
	case r.Left() == 0:
		return nil
	case r.Definite():
	case lapsesIn() <= 0: // it had before
		r.Missed()
		return nil
	default:
		m.log.Warn("lock not released, retrying until it lapses", "token", token,
			"lapses_in", unit(lapsesIn()), "error", joinNodes(tally.Errors()))
	}
	released := make(chan error, 1)
	m.voter.Go(func() {
		released <- m.released(r, token, lapsesIn)
		if r.Definite() {
			r.Until(over, lapsesIn, func() bool { return r.Left() == 0 })
		}
	})
	if campaigns {
		m.lateRelease = released
		return nil
	}
	return <-released
}

// released waits until a majority has released the lock, or it has lapsed, and returns an ErrNotReleased if no majority has. It
// uses nothing that belongs to the state machine.
func (m *machine) released(r *quorum.Release, token uint64, lapsesIn func() time.Duration) error {
	nodes := joinNodes(r.Until(context.Background(), lapsesIn, r.Definite).Errors())
	switch {
	case r.Definite():
		return nil
	case m.nodes.Closed():
		return failed(ErrNotReleased, "the lock of term %d was not released, it lapses in %v: %w", token, unit(lapsesIn()), ErrClosed)
	}
	r.Missed()
	m.log.Warn("lock not released, it has lapsed", "token", token, "error", nodes)
	return explain(fmt.Sprintf("the lock of term %d was not released, it has lapsed: %v", token, nodes), ErrNotReleased, nodes)
}
