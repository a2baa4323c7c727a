package shard_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/testredis"
	"github.com/mandate-dev/mandate/elector/proof/testcluster"
	"github.com/mandate-dev/mandate/elector/shard"
	"github.com/mandate-dev/mandate/health"
)

// A member that is too far from the nodes to lead as the assigner, and near enough to report
// and to own shards, does not keep the others from having one.
func TestFarMember(t *testing.T) {
	grouped(t, 3, 8, func(t *testing.T, c *testcluster.Cluster, g *group) {
		g.joins("x")
		c.Each(testredis.Fault{Delay: lease * 4 / 100}, "x")
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
}

// assigner is the member that holds the lock of the assigner's election on a node.
func assigner(n *testredis.Node) string {
	value, _ := n.Server().Get("mandate:{orders#assigner}:lock")
	id, _, _ := strings.Cut(value, "/")
	return id
}

// A node that hangs holds up the end of a member for the time of one request.
func TestLeaveWithANodeThatHangs(t *testing.T) {
	grouped(t, 3, 12, func(t *testing.T, c *testcluster.Cluster, g *group) {
		a := g.joins("a", "b")[0]
		time.Sleep(lease)
		c.Nodes[0].Set(testredis.Frozen, "a")
		time.Sleep(lease)
		a.stop()
		began := time.Now()
		must(t, a.ended(t, lease))
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
	grouped(t, 3, 12, func(t *testing.T, c *testcluster.Cluster, g *group) {
		a := g.joins("a", "b")[0]
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
		must(t, a.ended(t, lease))
		for _, n := range c.Nodes {
			if listed, err := n.Server().HKeys(membersKey); len(listed) != 1 {
				t.Errorf("the members are %q, %v: a is not taken off the list", listed, err)
			}
		}
	})
}

// The next owner of a shard does not receive that it was released: it had subscribed too late, and
// the one that left was gone before it had told the others. The plan shows it then, and no shard is
// without an owner until the end of a lease that nobody holds.
func TestReleaseIsNotReceived(t *testing.T) {
	grouped(t, 3, 8, func(t *testing.T, c *testcluster.Cluster, g *group) {
		g.joins("a")
		time.Sleep(lease)
		c.Each(testredis.Fault{LoseMessages: true}, "b")
		b := g.join("b")
		g.eventually(2*lease, "even", func() bool { return g.l.even(8, "a", "b") })
		if longest := g.l.gap; longest > lease*4/10 {
			t.Errorf("a shard was without an owner for %v", longest)
		}
		b.stop()
	})
}

// A shard is not handed over to a member that would not receive its release yet.
func TestReleaseFindsAListener(t *testing.T) {
	grouped(t, 3, 8, func(t *testing.T, c *testcluster.Cluster, g *group) {
		g.joins("a")
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

// Nor does it wait for one that can't: its Redis user may not subscribe, or the nodes don't confirm it.
func TestMoveWithoutSubscriptions(t *testing.T) {
	for name, prevent := range map[string]func(*testredis.Node){
		"refused":  func(n *testredis.Node) { n.Deny("subscribe") },
		"too slow": func(n *testredis.Node) { n.SubscribeSlowly(20 * lease) },
	} {
		t.Run(name, func(t *testing.T) {
			testcluster.Bubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
				for _, n := range c.Nodes {
					prevent(n)
				}
				g := newGroup(t, c, 8)
				g.join("a")
				g.eventually(2*lease, "all shards are owned", func() bool { return g.l.even(8, "a") })
				g.join("b")
				g.eventually(lease*6/10, "even", func() bool { return g.l.even(8, "a", "b") })
			})
		})
	}
}

// hangs is work that does not stop with its context, at some shards, until end is called.
func (g *group) hangs(id string, at func(shard int) bool) (work shard.Work, end func()) {
	ended := make(chan struct{})
	return func(ctx context.Context, term *shard.Term) error {
		g.l.begin(id, term)
		<-ctx.Done()
		g.l.end(id, term.Shard) // it does nothing any more: it is stuck
		if at(term.Shard) {
			<-ended
		}
		return nil
	}, func() { close(ended) }
}

// A shard whose work has stopped working, and does not return either, goes to another
// member when its lock has lapsed: the member where it hangs never campaigns again.
func TestStuckWork(t *testing.T) {
	grouped(t, 3, 4, func(t *testing.T, c *testcluster.Cluster, g *group) {
		var stuck atomic.Bool
		m := g.member("a", func(cfg *shard.Config) {
			cfg.WorkProbe = func(s int) health.Probe {
				return health.Func(func(context.Context) error {
					if s == 0 && stuck.Load() {
						return health.Definite(errors.New("stuck"))
					}
					return nil
				})
			}
			cfg.WorkProbeSettings = health.Settings{Interval: lease / 10}
		})
		work, end := g.hangs("a", func(s int) bool { return s == 0 })
		defer end()
		a := g.run(m, work)
		g.eventually(2*time.Second, "a owns all", func() bool { return g.l.even(4, "a") })
		g.join("b", func(c *shard.Config) { c.Weight = 0.001 })
		time.Sleep(lease)
		stuck.Store(true)
		g.eventually(3*lease, "b owns the stuck one", func() bool { return g.l.counts()["b"] == 1 })
		time.Sleep(5 * lease)
		if owned := a.Owned(); len(owned) != 3 || g.l.counts()["b"] != 1 {
			t.Errorf("a owns %v, and the others: %v", owned, g.l.counts())
		}
		if n := len(g.log.Lines("level=WARN", "does not stop", "shard=0")); n != 1 {
			t.Errorf("%d lines about the work that does not stop, want one", n)
		}
	})
}

// Work that hangs since Redis was away holds up its shards no longer than that.
func TestWorkHangsAfterAnOutage(t *testing.T) {
	grouped(t, 1, 4, func(t *testing.T, c *testcluster.Cluster, g *group) {
		work, end := g.hangs("a", func(int) bool { return true })
		defer end()
		g.run(g.member("a"), work)
		g.join("b")
		g.eventually(2*time.Second, "all shards are owned", func() bool { return g.l.even(4, "a", "b") })
		c.Each(testredis.Down)
		time.Sleep(2 * lease)
		c.Heal()
		g.eventually(2*lease, "all shards are owned again", func() bool { return g.l.even(4, "a", "b") })
	})
}
