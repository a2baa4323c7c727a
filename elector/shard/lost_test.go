package shard_test

import (
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/testredis"
	"github.com/mandate-dev/mandate/elector/proof/testcluster"
)

// The next owner of a shard does not receive that it was released: it had subscribed too late, and
// the one that left was gone before it had told the others. The plan shows it then, and no shard is
// without an owner until the end of a lease that nobody holds.
func TestReleaseIsNotReceived(t *testing.T) {
	testcluster.Bubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		g := newGroup(t, c, 8)
		g.join("a")
		g.eventually(2*time.Second, "all shards are owned", func() bool { return g.l.even(8, "a") })
		time.Sleep(lease)
		c.Each(testredis.Fault{LoseMessages: true}, "b")
		b := g.join("b")
		g.eventually(2*lease, "even", func() bool { return g.l.even(8, "a", "b") })
		if longest := g.l.gap; longest > lease*4/10 {
			t.Errorf("a shard was without an owner for %v", longest)
		}
		t.Logf("the longest time without an owner: %v", g.l.gap)
		b.stop()
	})
}

// A shard is not handed over to a member that would not receive its release yet.
func TestReleaseFindsAListener(t *testing.T) {
	testcluster.Bubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		g := newGroup(t, c, 8)
		g.join("a")
		g.eventually(2*time.Second, "all shards are owned", func() bool { return g.l.even(8, "a") })
		for _, n := range c.Nodes {
			n.SubscribeSlowly(200 * time.Millisecond)
		}
		g.join("b")
		g.eventually(lease, "even", func() bool { return g.l.even(8, "a", "b") })
		if longest := g.l.gap; longest > 5*time.Millisecond {
			t.Errorf("a shard was without an owner for %v", longest)
		}
	})
}

// Nor does it wait for one that can't: its Redis user may not subscribe.
func TestMoveWithoutSubscriptions(t *testing.T) {
	testcluster.Bubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		for _, n := range c.Nodes {
			n.Deny("subscribe")
		}
		g := newGroup(t, c, 8)
		g.join("a")
		g.eventually(2*lease, "all shards are owned", func() bool { return g.l.even(8, "a") })
		g.join("b")
		g.eventually(lease*4/10, "even", func() bool { return g.l.even(8, "a", "b") })
	})
}
