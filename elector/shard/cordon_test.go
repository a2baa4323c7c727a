package shard_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/proof/testcluster"
	"github.com/mandate-dev/mandate/elector/shard"
)

func mark(t *testing.T, q *elector.Quorum, id string, drain bool) {
	t.Helper()
	if err := q.Cordon(t.Context(), elector.Cordon{ID: id, By: "ada", Reason: "new kernel", Drain: drain}); err != nil {
		t.Fatal(err)
	}
}

// A cordoned member keeps what it owns and is given nothing, also after the others have gone
// and come, and after its own restart.
func TestACordonedMemberIsGivenNothing(t *testing.T) {
	onNodes(t, func(t *testing.T, c *testcluster.Cluster) {
		g := newGroup(t, c, 32)
		a := g.join("a")
		b := g.join("b")
		g.eventually(2*time.Second, "all shards are owned", func() bool { return g.l.even(32, "a", "b") })
		op := c.Quorum("operator")
		mark(t, op, "a", false)
		time.Sleep(time.Second)
		d := g.join("d")
		g.eventually(time.Second, "the others share the rest", func() bool {
			n := g.l.counts()
			return n["a"] == 16 && n["b"] == 8 && n["d"] == 8
		})
		if moved := g.l.moved(); moved != 8 {
			t.Errorf("%d shards moved, 8 are enough", moved)
		}
		st, err := shard.Read(t.Context(), op, "orders")
		if err != nil || len(st.Members) != 3 || !strings.HasPrefix(st.Members[0].Cordoned, "by ada since") || st.Members[0].Due != 16 || st.Members[1].Due != 8 || st.Members[0].Closed != "" {
			t.Errorf("%+v, %v", st.Members, err)
		}
		b.stop()
		g.eventually(time.Second, "d takes over what b had", func() bool {
			n := g.l.counts()
			return n["a"] == 16 && n["d"] == 16
		})
		a.stop()
		g.eventually(2*time.Second, "d owns all", func() bool { return g.l.counts()["d"] == 32 })
		g.join("a")
		time.Sleep(3 * lease)
		if n := g.l.counts(); n["d"] != 32 {
			t.Errorf("a restarted member that is cordoned was given shards: %v", n)
		}
		d.stop()
		time.Sleep(3 * lease)
		if n := g.l.counts(); n["a"] != 0 {
			t.Errorf("a cordoned member took shards that no other one wanted: %v", n)
		}
		st, err = shard.Read(t.Context(), op, "orders")
		if err != nil || len(st.Unowned) != 32 || !strings.Contains(st.Unowned[0].Why, "cordoned") {
			t.Errorf("%+v, %v", st.Unowned, err)
		}
		if _, err := op.Uncordon(t.Context(), elector.Cordon{ID: "a"}); err != nil {
			t.Fatal(err)
		}
		g.eventually(2*lease, "a owns all", func() bool { return g.l.counts()["a"] == 32 })
	})
}

// All that a drained member owns leaves, each shard without an owner for milliseconds.
func TestADrainedMemberHandsOverAll(t *testing.T) {
	for _, tc := range []struct {
		nodes, shards int
		drained       string // one of them is the assigner
	}{{1, 40, "a"}, {1, 40, "b"}, {3, 40, "a"}, {3, 40, "b"}, {1, 400, "a"}} {
		t.Run(fmt.Sprintf("%+v", tc), func(t *testing.T) {
			testcluster.Bubble(t, tc.nodes, func(t *testing.T, c *testcluster.Cluster) {
				g := newGroup(t, c, tc.shards)
				g.join("a")
				g.join("b")
				g.eventually(3*time.Second, "all shards are owned", func() bool { return g.l.even(tc.shards, "a", "b") })
				time.Sleep(time.Second)
				op := c.Quorum("operator")
				mark(t, op, tc.drained, true)
				g.eventually(time.Second, "all have left", func() bool { return g.l.counts()[tc.drained] == 0 })
				time.Sleep(100 * time.Millisecond)
				if n := g.l.counts(); n["a"]+n["b"] != tc.shards || n[tc.drained] != 0 || g.l.moved() != tc.shards/2 {
					t.Errorf("%v, %d moves", n, g.l.moved())
				}
				if g.l.gap > 5*time.Millisecond {
					t.Errorf("a shard was without an owner for %v", g.l.gap)
				}
				if leader, err := mustElection(t, op, "orders/assigner").Leader(t.Context()); err != nil || leader.Candidate == tc.drained {
					t.Errorf("the assigner is %+v, %v", leader, err)
				}
				if _, err := op.Uncordon(t.Context(), elector.Cordon{ID: tc.drained}); err != nil {
					t.Fatal(err)
				}
				g.eventually(3*time.Second, "even again", func() bool { return g.l.even(tc.shards, "a", "b") })
			})
		})
	}
}

// The last member keeps its shards: no other one could take them.
func TestTheLastMemberIsNotDrained(t *testing.T) {
	testcluster.Bubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		g := newGroup(t, c, 8)
		g.join("a")
		g.eventually(2*time.Second, "all shards are owned", func() bool { return g.l.even(8, "a") })
		mark(t, c.Quorum("operator"), "a", true)
		time.Sleep(3 * lease)
		if n := g.l.counts(); n["a"] != 8 {
			t.Errorf("%v", n)
		}
		g.join("b")
		g.eventually(2*time.Second, "b owns all", func() bool { return g.l.counts()["b"] == 8 })
	})
}

// What is only published is not believed.
func TestAForgedCordonOfAMember(t *testing.T) {
	testcluster.Bubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		g := newGroup(t, c, 8)
		g.joinTwo()
		for range 20 {
			for _, nd := range c.Nodes {
				nd.Server().Publish("mandate:cordons", "a")
				nd.Server().Publish("mandate:cordons", `{"id":"a","drain":true}`)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if !g.l.even(8, "a", "b") || g.l.moved() != 0 {
			t.Errorf("%v, %d moves", g.l.counts(), g.l.moved())
		}
	})
}

func mustElection(t *testing.T, q *elector.Quorum, name string) *elector.Election {
	t.Helper()
	el, err := q.Election(name)
	if err != nil {
		t.Fatal(err)
	}
	return el
}
