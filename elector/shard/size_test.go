package shard_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/testredis"
	"github.com/mandate-dev/mandate/elector/proof/testcluster"
)

// TestSize is what a group of many shards promises of time and of moves. 1,024 shards take a
// minute here; BenchmarkGroup has them on real servers.
func TestSize(t *testing.T) {
	shards := 256
	if testing.Short() { // the same rules hold for fewer
		shards = 64
	}
	testcluster.Bubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		g := newGroup(t, c, shards)
		var ids []string
		for i := range 8 {
			ids = append(ids, fmt.Sprint("m", i))
			g.join(ids[i])
		}
		g.eventually(2*time.Second, "all shards are owned", func() bool { return g.l.even(shards, ids...) })
		time.Sleep(lease)

		g.join("m8")
		ids = append(ids, "m8")
		g.eventually(time.Second, "even after a join", func() bool { return g.l.even(shards, ids...) })
		if n := g.l.moved(); n != shards/9 {
			t.Errorf("%d shards moved, %d are enough", n, shards/9)
		}
		if g.l.gap > 5*time.Millisecond {
			t.Errorf("a shard was without an owner for %v", g.l.gap)
		}

		for _, dies := range []string{"m0", "m4"} { // the assigner, and another one
			before := g.l.moved()
			owned := g.l.counts()[dies]
			c.Each(testredis.Cut, dies)
			ids = slices.DeleteFunc(ids, func(id string) bool { return id == dies })
			g.eventually(lease+time.Second/2, "the others own all after the death of "+dies, func() bool { return g.l.even(shards, ids...) })
			if n := g.l.moved() - before; n != owned {
				t.Errorf("%d shards moved, %d were those of the dead member", n, owned)
			}
		}
	})
}

// A rolling restart of all members moves each shard at most twice, and leaves none without an owner for longer than any planned
// move does.
func TestRollingRestartOfAll(t *testing.T) {
	const shards = 64 // BenchmarkRollingRestart has 1,024
	testcluster.Bubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		g := newGroup(t, c, shards)
		var ids []string
		all := map[string]*member{}
		for i := range 8 {
			ids = append(ids, fmt.Sprint("m", i))
			all[ids[i]] = g.join(ids[i])
		}
		g.eventually(2*time.Second, "all shards are owned", func() bool { return g.l.even(shards, ids...) })
		began := time.Now()
		for i, id := range ids {
			all[id].stop()
			if err := all[id].ended(t, 2*time.Second); err != nil {
				t.Fatal(err)
			}
			ids[i] = "new-" + id
			g.join(ids[i])
			g.eventually(time.Second, "even again", func() bool { return g.l.even(shards, ids...) })
		}
		t.Logf("restarted in %v with %d moves, the longest time without an owner: %v", time.Since(began), g.l.moved(), g.l.gap)
		for s, n := range g.l.terms {
			if n > 3 {
				t.Errorf("shard %d has moved %d times", s, n-1)
			}
		}
		if g.l.gap > 5*time.Millisecond {
			t.Errorf("a shard was without an owner for %v", g.l.gap)
		}
	})
}
