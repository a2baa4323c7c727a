package shard

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/group"
	"github.com/mandate-dev/mandate/elector/internal/testredis"
	"github.com/mandate-dev/mandate/elector/proof/testcluster"
)

func holds() bool { return true }

// A member that was away while the group grew, and wins the lock of a shard, does not work: a
// majority of the nodes has another number of shards. What it would work for is owned by others.
func TestTheGateIsOfAMajority(t *testing.T) {
	const key = "mandate:{orders}:group"
	old, grows := `{"v":1,"shards":8,"lease_ms":10000}`, `{"v":1,"shards":24,"lease_ms":10000,"from":8}`
	for _, c := range []struct {
		nodes []string
		want  int // of a member that knows of 8
	}{
		{[]string{old, old, old}, 8},
		{[]string{old, old, grows}, 8},
		{[]string{old, old, ""}, 8},
		{[]string{old, grows, grows}, 0},
		{[]string{old, grows, ""}, 0},
		{[]string{old, "garbage", "[]"}, 0},
		{[]string{old}, 8},
		{[]string{grows}, 0},
		{[]string{""}, 0},
	} {
		t.Run(fmt.Sprint(c.nodes), func(t *testing.T) {
			testcluster.Bubble(t, len(c.nodes), func(t *testing.T, cluster *testcluster.Cluster) {
				for i, settings := range c.nodes {
					if settings != "" {
						if err := cluster.Nodes[i].Server().Set(key, settings); err != nil {
							t.Fatal(err)
						}
					}
				}
				m, err := New(cluster.Quorum("a"), Config{Group: "orders", Shards: 8, ID: "a"})
				if err != nil {
					t.Fatal(err)
				}
				m.gate.settings.Store(&group.Settings{Shards: 8, Lease: m.cfg.Lease})
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if got, ok := m.gate.enter(ctx, 3, 7, holds); got != c.want || ok != (got > 0) {
					t.Errorf("enters as one of %d (%v), want %d", got, ok, c.want)
				}
				for _, n := range cluster.Nodes {
					if n.Server().Exists("mandate:{orders}:cuts") {
						t.Error("a shard is noted as cut by one that was not let in, or that knows of no growth")
					}
				}
			})
		})
	}
}

// A shard is cut when a majority has let its owner in as one of more, and not before: an old member
// may still win the lock.
func TestOnlyWhatWasLetInIsCut(t *testing.T) {
	const key, cuts = "mandate:{orders}:group", "mandate:{orders}:cuts"
	old, grows := `{"v":1,"shards":8,"lease_ms":10000}`, `{"v":1,"shards":24,"lease_ms":10000,"from":8}`
	testcluster.Bubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		for i, settings := range []string{grows, old, old} {
			if err := c.Nodes[i].Server().Set(key, settings); err != nil {
				t.Fatal(err)
			}
		}
		m, err := New(c.Quorum("a"), Config{Group: "orders", Shards: 24, ID: "a"})
		if err != nil {
			t.Fatal(err)
		}
		grown := group.Settings{Shards: 24, Lease: m.cfg.Lease, From: 8}
		m.gate.settings.Store(&grown)
		m.gate.settled.Store(&grown)
		let := make(chan int, 1)
		go func() {
			shards, _ := m.gate.enter(t.Context(), 3, 7, holds)
			let <- shards
		}()
		time.Sleep(3 * time.Second)
		if c.Nodes[0].Server().Exists(cuts) {
			t.Error("it was not let in, and the shard is noted as cut")
		}
		if err := c.Nodes[1].Server().Set(key, grows); err != nil {
			t.Fatal(err)
		}
		if got := <-let; got != 24 {
			t.Errorf("it was let in as one of %d", got)
		}
		time.Sleep(time.Second)
		for i, want := range []string{"7", "7", ""} {
			if got := c.Nodes[i].Server().HGet(cuts, "3"); got != want {
				t.Errorf("node %d has noted %q, want %q", i, got, want)
			}
		}
	})
}

// A term may begin by what the nodes have shown to the beats, without a query: for a quarter of a
// lease after those beats were sent, however late they were answered, and by a majority alone.
func TestTheGateKnowsFromTheBeats(t *testing.T) {
	for name, c := range map[string]struct {
		ages   []time.Duration // of the beats to the nodes that have shown 8
		other  int             // nodes that have shown 24
		known  bool
		shards int // that this member knows of
	}{
		"all of late":          {ages: []time.Duration{0, 0, 0}, known: true},
		"a majority":           {ages: []time.Duration{0, 2 * time.Second}, known: true},
		"one of three":         {ages: []time.Duration{0}},
		"one, and others":      {ages: []time.Duration{0}, other: 2},
		"a majority, long ago": {ages: []time.Duration{0, 2500 * time.Millisecond, time.Hour}},
		"another number":       {ages: []time.Duration{0, 0, 0}, shards: 24},
	} {
		t.Run(name, func(t *testing.T) {
			testcluster.Bubble(t, 3, func(t *testing.T, cluster *testcluster.Cluster) {
				m, err := New(cluster.Quorum("a"), Config{Group: "orders", Shards: 24, ID: "a"})
				if err != nil {
					t.Fatal(err)
				}
				m.gate.settings.Store(&group.Settings{Shards: max(c.shards, 8), Lease: m.cfg.Lease})
				now := m.gate.recent.now()
				for node := range c.other {
					m.gate.recent.saw(2-node, 24, now)
				}
				longest := slices.Max(c.ages)
				time.Sleep(time.Hour - longest)
				for waited := time.Duration(0); waited <= longest; waited += 500 * time.Millisecond {
					for node, age := range c.ages {
						if age == longest-waited {
							m.gate.recent.saw(node, 8, m.gate.recent.now())
						}
					}
					if waited < longest {
						time.Sleep(500 * time.Millisecond)
					}
				}
				cluster.Each(testredis.Cut, "a") // no query is answered
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				defer cancel()
				if got, ok := m.gate.enter(ctx, 3, 7, holds); ok != c.known || ok && got != 8 {
					t.Errorf("enters as one of %d (%v), want %v", got, ok, c.known)
				}
			})
		})
	}
}

// A beat that a node was long in answering shows what the node had when it answered, which may be
// long before the answer arrives.
func TestTheGateCountsFromBeforeTheBeat(t *testing.T) {
	testcluster.Bubble(t, 3, func(t *testing.T, cluster *testcluster.Cluster) {
		m, err := New(cluster.Quorum("a"), Config{Group: "orders", Shards: 8, ID: "a"})
		if err != nil {
			t.Fatal(err)
		}
		cluster.Each(testredis.Fault{Delay: 400 * time.Millisecond}, "a")
		began, reported := time.Now(), make(chan struct{}, 3)
		ctx, cancel := context.WithCancel(t.Context())
		for node := range 3 {
			l := link{woken: make(chan struct{}, 1)}
			go l.beat(ctx, m, node, func() (group.Record, group.Settings) {
				return group.Member{ID: "a", Incarnation: m.incarnation, Shards: 8}.Record(), group.Settings{Shards: 8, Lease: m.cfg.Lease}
			}, func(event) { reported <- struct{}{} })
		}
		for range 3 {
			<-reported
		}
		cancel()
		if !m.gate.recent.has(8, 2) {
			t.Error("what was answered does not count")
		}
		time.Sleep(m.gate.recent.timing.End() - time.Since(began))
		if m.gate.recent.has(8, 2) {
			t.Error("it counts from when the answers arrived")
		}
	})
}

// An owner that has lost its lock while the nodes answered must not have its shard noted as cut:
// another member may own it as one of fewer by now.
func TestOnlyWhoHoldsTheLockCuts(t *testing.T) {
	const cuts = "mandate:{orders}:cuts"
	grows := `{"v":1,"shards":24,"lease_ms":10000,"from":8}`
	for name, c := range map[string]struct {
		held, settled bool
	}{"held": {true, true}, "lost": {false, true}, "too early": {true, false}} {
		t.Run(name, func(t *testing.T) {
			testcluster.Bubble(t, 3, func(t *testing.T, cluster *testcluster.Cluster) {
				for _, n := range cluster.Nodes {
					if err := n.Server().Set("mandate:{orders}:group", grows); err != nil {
						t.Fatal(err)
					}
				}
				m, err := New(cluster.Quorum("a"), Config{Group: "orders", Shards: 24, ID: "a"})
				if err != nil {
					t.Fatal(err)
				}
				grown := group.Settings{Shards: 24, Lease: m.cfg.Lease, From: 8}
				m.gate.settings.Store(&grown)
				if c.settled {
					m.gate.settled.Store(&grown)
				}
				if got, _ := m.gate.enter(t.Context(), 3, 7, func() bool { return c.held }); got != 24 {
					t.Errorf("it was let in as one of %d", got)
				}
				time.Sleep(time.Second)
				if got, want := cluster.Nodes[0].Server().Exists(cuts), c.held && c.settled; got != want {
					t.Errorf("noted as cut: %v, want %v", got, want)
				}
			})
		})
	}
}

// No shard is cut before no member relies any more on what the nodes have shown it of an earlier
// number: a member may have won a shard by that, and work for keys that would get another owner.
func TestSettingsSettle(t *testing.T) {
	testcluster.Bubble(t, 3, func(t *testing.T, cluster *testcluster.Cluster) {
		m, err := New(cluster.Quorum("a"), Config{Group: "orders", Shards: 24, ID: "a"})
		if err != nil {
			t.Fatal(err)
		}
		old, grown := group.Settings{Shards: 8, Lease: m.cfg.Lease}, group.Settings{Shards: 24, Lease: m.cfg.Lease, From: 8}
		r := newReconciler(t.Context(), m, nil)
		r.inbox.close() // its loop does not run
		shown := func(all ...group.Settings) bool {
			for node, s := range all {
				r.shown[node] = &group.Answer{Settings: s}
			}
			r.agree()
			return r.settle()
		}
		if shown(old, old, old); r.settings != old {
			t.Fatalf("the settings are %v", r.settings)
		}
		r.proposed(grown)
		if shown(grown, old, old) {
			t.Error("settled by one node")
		}
		time.Sleep(time.Hour)
		if shown(grown, grown, old) || m.gate.settled.Load() != nil {
			t.Error("settled at once")
		}
		// A beat that was sent just before a majority had the new settings.
		m.gate.recent.saw(0, 8, m.gate.recent.now())
		m.gate.recent.saw(1, 8, m.gate.recent.now())
		for m.gate.recent.has(8, 2) {
			if shown(grown, grown, old) {
				t.Fatal("settled while a member may still begin to work as one of 8")
			}
			time.Sleep(time.Millisecond)
		}
		time.Sleep(2 * m.gate.recent.timing.Drift())
		if !shown(grown, grown, old) || *m.gate.settled.Load() != grown {
			t.Error("has not settled")
		}
	})
}
