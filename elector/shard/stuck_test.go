package shard_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/testredis"
	"github.com/mandate-dev/mandate/elector/proof/testcluster"
	"github.com/mandate-dev/mandate/elector/shard"
	"github.com/mandate-dev/mandate/health"
)

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
	onNodes(t, func(t *testing.T, c *testcluster.Cluster) {
		g := newGroup(t, c, 4)
		var stuck atomic.Bool
		cfg := shard.Config{Group: "orders", Shards: 4, ID: "a", Lease: lease, Logger: g.log.Logger()}
		cfg.WorkProbe = func(s int) health.Probe {
			return health.Func(func(context.Context) error {
				if s == 0 && stuck.Load() {
					return health.Definite(errors.New("stuck"))
				}
				return nil
			})
		}
		cfg.WorkProbeSettings = health.Settings{Interval: lease / 10}
		m, err := shard.New(c.Quorum("a"), cfg)
		if err != nil {
			t.Fatal(err)
		}
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
	testcluster.Bubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		g := newGroup(t, c, 4)
		m, err := shard.New(c.Quorum("a"), shard.Config{Group: "orders", Shards: 4, ID: "a", Lease: lease, Logger: g.log.Logger()})
		if err != nil {
			t.Fatal(err)
		}
		work, end := g.hangs("a", func(int) bool { return true })
		defer end()
		g.run(m, work)
		g.join("b")
		g.eventually(2*time.Second, "all shards are owned", func() bool { return g.l.even(4, "a", "b") })
		c.Each(testredis.Down)
		time.Sleep(2 * lease)
		c.Heal()
		g.eventually(2*lease, "all shards are owned again", func() bool { return g.l.even(4, "a", "b") })
	})
}
