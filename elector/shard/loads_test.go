package shard_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/testredis"
	"github.com/mandate-dev/mandate/elector/proof/testcluster"
	"github.com/mandate-dev/mandate/elector/shard"
)

// A Load that panics or hangs costs balance alone.
func TestBadLoad(t *testing.T) {
	for name, load := range map[string]func(stop chan struct{}) float64{
		"panic": func(chan struct{}) float64 { panic("no load") },
		"end":   func(chan struct{}) float64 { runtime.Goexit(); return 0 },
		"hang":  func(stop chan struct{}) float64 { <-stop; return 1 },
		"NaN":   func(chan struct{}) float64 { return math.NaN() },
	} {
		t.Run(name, func(t *testing.T) {
			testcluster.Bubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
				stop := make(chan struct{})
				g := newGroup(t, c, 8)
				heavy := func(cfg *shard.Config) { cfg.Load = func(int) float64 { return load(stop) } }
				a := g.join("a", heavy)
				g.join("b", heavy)
				g.eventually(2*time.Second, "all shards are owned", func() bool { return g.l.even(8, "a", "b") })
				time.Sleep(3 * lease)
				if !g.l.even(8, "a", "b") {
					t.Errorf("%v", g.l.counts())
				}
				a.stop()
				if err := a.ended(t, 2*time.Second); err != nil {
					t.Error(err)
				}
				close(stop)
			})
		})
	}
}

func TestWeightsAndLoads(t *testing.T) {
	testcluster.Bubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		g := newGroup(t, c, 30)
		loads := func(cfg *shard.Config) {
			cfg.Load = func(s int) float64 { return float64(1 + s%3) } // 60 in all
		}
		g.join("a", loads, func(cfg *shard.Config) { cfg.Weight = 2 })
		g.join("b", loads)
		sum := func(id string) (all int) {
			g.l.mu.Lock()
			defer g.l.mu.Unlock()
			for s, o := range g.l.owner {
				if o == id {
					all += 1 + s%3
				}
			}
			return all
		}
		time.Sleep(6 * lease) // they are measured for four of them
		if a, b := sum("a"), sum("b"); a+b != 60 || a < 36 || a > 44 {
			t.Errorf("a has %d of 60, b %d: two thirds and one third are their due", a, b)
		}
	})
}

// Loads that go up and down all the time move next to nothing, also where the shards do not
// divide evenly.
func TestNoisyLoads(t *testing.T) {
	for _, tc := range []struct {
		shards, members int
		noise           float64
		moves           int
	}{
		{24, 3, 0.5, 1},
		{7, 3, 0.5, 1},
		{16, 3, 0.2, 0},
		{16, 3, 0.5, 6}, // a member has 1.125 of its due with six of them, and up to 1.1 would be even
		{24, 5, 0.2, 0},
	} {
		t.Run(fmt.Sprintf("%d shards, %d members, noise of %v", tc.shards, tc.members, tc.noise), func(t *testing.T) {
			testcluster.Bubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
				g := newGroup(t, c, tc.shards)
				var mu sync.Mutex
				var noise []*rand.Rand
				for s := range uint64(tc.shards) { // one each: the others' noise must not depend on who owns a shard
					noise = append(noise, rand.New(rand.NewPCG(6, s)))
				}
				for i := range tc.members {
					g.join(string(rune('a'+i)), func(cfg *shard.Config) {
						cfg.Load = func(s int) float64 {
							mu.Lock()
							defer mu.Unlock()
							return 100 + 100*tc.noise*(2*noise[s].Float64()-1)
						}
					})
				}
				time.Sleep(30 * lease)
				if n := g.l.moved(); n > tc.moves {
					t.Errorf("%d moves in 30 leases, with nothing wrong", n)
				}
			})
		})
	}
}

// uneven are the loads of 24 shards: three of them are as heavy as all others together.
func uneven(cfg *shard.Config) {
	cfg.Load = func(s int) float64 {
		if s < 3 {
			return 50
		}
		return 1 + float64(s)/100
	}
}

// unevenly reports whether four members own those shards as evenly as their loads allow.
func unevenly(g *group) bool {
	return slices.Equal(slices.Sorted(maps.Values(g.l.counts())), []int{1, 1, 1, 21})
}

// What the shards weigh is known to a new assigner: else it takes all for equal, and
// moves most of them to and fro.
func TestLoadsSurviveAnAssigner(t *testing.T) {
	onNodes(t, func(t *testing.T, c *testcluster.Cluster) {
		g := newGroup(t, c, 24)
		for _, id := range []string{"a", "b", "c", "d"} {
			g.join(id, uneven)
		}
		time.Sleep(6 * lease)
		if !unevenly(g) {
			t.Fatalf("the members own %v", g.l.counts())
		}
		before := g.l.moved()
		for range 3 {
			if _, err := testcluster.ElectionOf(c.Quorum("operator"), "orders/assigner").StepDown(t.Context(), "test"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(6 * lease)
			if n := g.l.moved() - before; n > 0 {
				t.Fatalf("%d moves after a new assigner, with nothing wrong", n)
			}
		}
	})
}

// A deploy replaces the members faster than their loads can be measured: each shard keeps the
// load that its last owner has measured.
func TestLoadsSurviveADeploy(t *testing.T) {
	onNodes(t, func(t *testing.T, c *testcluster.Cluster) {
		g := newGroup(t, c, 24)
		old := map[string]*member{}
		for _, id := range []string{"a", "b", "c", "d"} {
			old[id] = g.join(id, uneven)
		}
		time.Sleep(6 * lease)
		for _, id := range []string{"a", "b", "c", "d"} {
			g.join(id+"2", uneven)
			time.Sleep(lease / 2)
			old[id].stop()
			time.Sleep(lease / 2)
			if !unevenly(g) {
				t.Errorf("once %s is replaced the members own %v", id, g.l.counts())
			}
		}
		before := g.l.moved()
		time.Sleep(6 * lease)
		if n := g.l.moved() - before; n > 0 {
			t.Errorf("%d moves after the deploy", n)
		}
	})
}

// The load of a shard without an owner is known to an assigner that is elected after its owner
// has died.
func TestLoadsSurviveTwoDeaths(t *testing.T) {
	onNodes(t, func(t *testing.T, c *testcluster.Cluster) {
		g := newGroup(t, c, 24)
		for _, id := range []string{"a", "b", "c", "d"} {
			g.join(id, uneven)
		}
		time.Sleep(6 * lease)
		before := g.l.moved()
		dies := g.l.owner[0]
		if assigner(c.Nodes[0]) == dies {
			dies = g.l.owner[1]
		}
		c.Each(testredis.Cut, dies)
		time.Sleep(lease * 7 / 10)
		if _, err := testcluster.ElectionOf(c.Quorum("operator"), "orders/assigner").StepDown(t.Context(), "test"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(6 * lease)
		counts := g.l.counts()
		if delete(counts, dies); !slices.Equal(slices.Sorted(maps.Values(counts)), []int{7, 7, 10}) {
			t.Errorf("the members own %v", counts)
		}
		if n := g.l.moved() - before; n > 20 {
			t.Errorf("%d moves: some went to and fro", n)
		}
	})
}
