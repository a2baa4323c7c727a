package elector_test

import (
	"testing"

	"github.com/mandate-dev/mandate/elector"
)

// A handler that routes to the leader must not wait for Redis. What it is told without
// asking is at most a lease old, names nobody whose term is over, and no stranger's lock.
func TestLastLeader(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a := makeCandidate(t, c.Quorum("a"), "a", func(cfg *elector.Config) { cfg.Advertise = "a:80" })
		if l, ok := a.LastLeader(); ok {
			t.Errorf("before it runs: %+v", l)
		}
		a.Begin(nil)
		term := a.Elected(3 * shortLease)
		if l, ok := a.LastLeader(); !ok || l.Candidate != "a" || l.Token != term.Token() || l.LeaseLeft <= 0 || l.Since.IsZero() {
			t.Errorf("of itself: %+v, %v", l, ok)
		}
		b := c.Start("b")
		b.Quiet(shortLease)
		want := elector.Leader{Candidate: "a", Incarnation: a.Incarnation(), Advertise: "a:80", Token: term.Token()}
		if l, ok := b.LastLeader(); !ok || l != want {
			t.Errorf("of the other: %+v, %v, want %+v", l, ok, want)
		}

		a.Shutdown()
		b.Elected(shortLease)
		if l, ok := a.LastLeader(); ok {
			t.Errorf("of its own term that is over: %+v", l)
		}
		if l, ok := b.LastLeader(); !ok || l.Candidate != "b" {
			t.Errorf("after the change: %+v, %v", l, ok)
		}

		d := c.Start("d")
		d.Quiet(shortLease)
		b.Shutdown()
		d.Elected(shortLease)
		for _, n := range c.Nodes {
			_ = n.Server().Set(lockKey, "a stranger's")
		}
		wantReason(t, d.Term(), shortLease, elector.ReasonLost)
		d.Quiet(3 * shortLease)
		if l, ok := d.LastLeader(); ok {
			t.Errorf("of a lock that is nobody's: %+v", l)
		}
	})
}
