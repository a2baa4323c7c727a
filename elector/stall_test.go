package elector_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/health"
)

// beating has a heartbeat as work probe, and work that beats while alive holds.
func beating(c *cluster, t *testing.T, id string, alive *atomic.Bool, bound time.Duration) *candidate {
	h := health.NewHeartbeat(bound)
	x := makeCandidate(t, c.Quorum(id), id, func(cfg *elector.Config) { cfg.WorkProbe = h })
	return x.Begin(func(ctx context.Context, _ *elector.Term) error {
		for ctx.Err() == nil {
			if alive.Load() {
				h.Beat()
			}
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
		return nil
	})
}

func TestStalledWorkLosesTheLeadership(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		var aliveA, aliveB atomic.Bool
		aliveA.Store(true)
		aliveB.Store(true)
		const bound = 2 * time.Second
		a := beating(c, t, "a", &aliveA, bound)
		term := a.Elected(3 * shortLease)
		b := beating(c, t, "b", &aliveB, bound)
		b.Quiet(5 * shortLease)
		if !term.Valid() {
			t.Fatalf("lost: %v", term.Err())
		}
		aliveA.Store(false)
		ended := wantReason(t, term, bound+10*time.Millisecond, elector.ReasonUnhealthy)
		if !strings.Contains(ended.Error(), "no progress") {
			t.Errorf("reason %v", ended)
		}
		b.Elected(20 * time.Millisecond)
	})
}
