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
