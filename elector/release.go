package elector

import (
	"context"
	"fmt"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/lease"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// heldLock is the lock of a term whose work has returned.
type heldLock struct {
	m         *machine
	token     uint64
	lastSent  lease.Stamp // when the newest renewal was sent, whatever its outcome; without any, when the term began
	releasing *quorum.Release
}

// giveBack sends the release, and retries it until a majority of the nodes has answered it or the
// lock has lapsed. It blocks until then, unless this candidate campaigns again at once: its next
// claim takes over the locks that it still holds.
func (h *heldLock) giveBack(campaigns bool) error {
	m, r := h.m, h.releasing
	tally := r.Try(m.cfg.Lease)
	if r.Definite() {
		if r.Left() > 0 {
			going := m.runCtx // a later Run has its own
			m.voter.Go(func() { _ = h.repeat(going, func() bool { return r.Left() == 0 }) })
		}
		return nil
	}
	if h.lapsesIn() <= 0 {
		return nil // the lock had lapsed before
	}
	m.log.Warn("lock not released, retrying until it lapses", "token", h.token,
		"at_most", unit(h.lapsesIn()), "error", joinNodes(tally.Errors()))
	if campaigns {
		owed := make(chan error, 1)
		m.pendingRelease = owed
		m.voter.Go(func() { owed <- h.repeat(context.Background(), r.Definite) })
		return nil
	}
	return h.repeat(context.Background(), r.Definite)
}

// repeat retries a release, at first at once and on a new connection, then less
// and less often, until enough returns true, the lock has lapsed, or ctx has ended.
func (h *heldLock) repeat(ctx context.Context, enough func() bool) error {
	m, r := h.m, h.releasing
	for wait := time.Duration(0); !enough(); wait = min(max(2*wait, m.cfg.Lease/256), m.timing.RetryEvery()) {
		sleep(ctx, wait)
		left := h.lapsesIn()
		tally := r.Try(max(left, m.timing.CallTimeout()))
		switch {
		case enough():
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case left > 0:
			continue
		case r.Definite():
			return nil // a majority has released it, and the rest has lapsed
		}
		nodes := joinNodes(tally.Errors())
		m.log.Warn("lock not released, it has lapsed", "token", h.token, "error", nodes)
		return explain(fmt.Sprintf("the lock of term %d was not released, it has lapsed: %v", h.token, nodes), ErrNotReleased, nodes)
	}
	return nil
}

// lapsesIn returns for how long the nodes may still hold the lock. An unconfirmed
// renewal may have prolonged it too.
func (h *heldLock) lapsesIn() time.Duration {
	elapsed, ok := h.m.clock.Since(h.lastSent)
	if !ok { // the clocks contradict each other
		return 0
	}
	return h.m.cfg.Lease + h.m.timing.Drift() - elapsed
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
