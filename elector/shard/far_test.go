package shard_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/testredis"
	"github.com/mandate-dev/mandate/elector/proof/testcluster"
)

// A member that is too far from the nodes to lead as the assigner, and near enough to report
// and to own shards, does not keep the others from having one.
func TestFarMember(t *testing.T) {
	for _, delay := range []time.Duration{lease * 4 / 100, lease * 7 / 100} { // each way; an assigner's requests have a fifteenth
		t.Run(fmt.Sprint(delay), func(t *testing.T) {
			onNodes(t, func(t *testing.T, c *testcluster.Cluster) {
				g := newGroup(t, c, 8)
				g.join("x")
				g.eventually(2*time.Second, "all shards are owned", func() bool { return g.l.even(8, "x") })
				c.Each(testredis.Fault{Delay: delay}, "x")
				time.Sleep(3 * lease)
				g.join("a")
				g.join("b")
				g.eventually(lease, "even beside the far member", func() bool { return g.l.even(8, "a", "b", "x") })
				moved := g.l.moved()
				time.Sleep(5 * lease)
				if !g.l.even(8, "a", "b", "x") || g.l.moved() != moved {
					t.Errorf("%d moves afterwards, and then %v", g.l.moved()-moved, g.l.counts())
				}
			})
		})
	}
}

// assigner is the member that holds the lock of the assigner's election on a node.
func assigner(n *testredis.Node) string {
	value, _ := n.Server().Get("mandate:{orders/assigner}:lock")
	id, _, _ := strings.Cut(value, "/")
	return id
}

// An assigner that is refused the list of the members gives the office up.
func TestBlindAssigner(t *testing.T) {
	testcluster.Bubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		g := newGroup(t, c, 8)
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

// A node that hangs holds up the end of a member for the time of one request.
func TestLeaveWithANodeThatHangs(t *testing.T) {
	testcluster.Bubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		g := newGroup(t, c, 12)
		a := g.join("a")
		g.join("b")
		g.eventually(2*time.Second, "all shards are owned", func() bool { return g.l.even(12, "a", "b") })
		time.Sleep(lease)
		c.Nodes[0].Set(testredis.Frozen, "a")
		time.Sleep(lease)
		a.stop()
		began := time.Now()
		if err := a.ended(t, lease); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > lease*3/10 {
			t.Errorf("Run ended after %v", took)
		}
		if !g.l.even(12, "b") || g.l.gap > 5*time.Millisecond {
			t.Errorf("%v, a shard was without an owner for %v", g.l.counts(), g.l.gap)
		}
	})
}

// One beat that fails while a member stops is not the end of Redis: it hands its shards over.
func TestLeaveDuringAHiccup(t *testing.T) {
	onNodes(t, func(t *testing.T, c *testcluster.Cluster) {
		g := newGroup(t, c, 12)
		a := g.join("a")
		g.join("b")
		g.eventually(2*time.Second, "all shards are owned", func() bool { return g.l.even(12, "a", "b") })
		time.Sleep(lease)
		for _, n := range c.Nodes {
			n.RefuseWith("LOADING Redis is loading the dataset in memory")
		}
		a.stop()
		time.Sleep(lease / 5)
		for _, n := range c.Nodes {
			n.RefuseWith("")
		}
		g.eventually(lease/2, "b owns all", func() bool { return g.l.even(12, "b") })
		if g.l.gap > 5*time.Millisecond {
			t.Errorf("a shard was without an owner for %v", g.l.gap)
		}
		if err := a.ended(t, lease); err != nil {
			t.Error(err)
		}
	})
}
