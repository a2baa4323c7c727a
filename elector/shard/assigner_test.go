package shard_test

import (
	"context"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/testredis"
	"github.com/mandate-dev/mandate/elector/proof/testcluster"
)

// A member that has lived for a lease takes no shard from an owner when all nodes forget who
// that is, although it campaigns for that shard for the first time: the owner, which is cut
// off, keeps it until its lease ends.
func TestLossOfAllData(t *testing.T) {
	grouped(t, 3, 12, func(t *testing.T, c *testcluster.Cluster, g *group) {
		g.joins("a", "b")
		time.Sleep(3 * lease)
		c.Each(testredis.Cut, "b")
		for _, n := range c.Nodes {
			n.Server().FlushAll()
		}
		g.eventually(2*lease, "a owns all", func() bool { return g.l.even(12, "a") })
	})
}

// A member that is forged well is given shards that it never takes: they stay where they are.
func TestForgedMemberCostsNoOwner(t *testing.T) {
	grouped(t, 3, 12, func(t *testing.T, c *testcluster.Cluster, g *group) {
		g.joins("a", "b")
		for range 30 {
			for _, n := range c.Nodes {
				n.Server().HSet(membersKey, "x", `99999999999999 {"id":"x","incarnation":"x","weight":1,"owned":"","unable":""}`)
			}
			time.Sleep(lease / 10)
			if !g.l.even(12, "a", "b") {
				t.Fatalf("a member that never campaigns took shards from others: %v", g.l.counts())
			}
		}
	})
}

// Without an assigner, as when its election is paused, every member keeps what it owns.
func TestNoAssigner(t *testing.T) {
	grouped(t, 3, 8, func(t *testing.T, c *testcluster.Cluster, g *group) {
		g.joins("a", "b")
		el := testcluster.ElectionOf(c.Quorum("operator"), "orders#assigner")
		must(t, el.Pause(context.Background(), 0, "test"))
		if _, _, err := el.StepDown(context.Background(), "test"); err == nil {
			t.Fatal("an assigner was elected in a pause")
		}
		time.Sleep(3 * lease)
		if !g.l.even(8, "a", "b") {
			t.Errorf("%v", g.l.counts())
		}
		must(t, el.Resume(context.Background()))
		g.join("c")
		g.eventually(lease, "even after the pause", func() bool { return g.l.even(8, "a", "b", "c") })
	})
}

// An assigner that is refused the list of the members gives the office up.
func TestBlindAssigner(t *testing.T) {
	grouped(t, 3, 8, func(t *testing.T, c *testcluster.Cluster, g *group) {
		deny := func() {
			for _, n := range c.Nodes {
				if n.Deny(); assigner(c.Nodes[0]) == "a" {
					n.Deny("hgetall")
				}
			}
		}
		c.Nodes[0].Deny("hgetall")
		g.join("a")
		testcluster.Eventually(t, lease, "a is the assigner", func() bool { deny(); return assigner(c.Nodes[0]) == "a" })
		g.join("b")
		g.eventually(2*lease, "all shards are owned", func() bool { deny(); return g.l.even(8, "a", "b") })
	})
}
