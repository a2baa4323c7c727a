package shard_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/testredis"
	"github.com/mandate-dev/mandate/elector/proof/testcluster"
	"github.com/mandate-dev/mandate/elector/shard"
)

func TestSplit(t *testing.T) {
	others, groups := shard.Split([]string{
		"a", "a/0", // no group: without an assigner
		"b/assigner",                                               // no group: without a shard
		"c/1", "c/10", "c/2", "c/assigner", "c/01", "c/-1", "c/+3", // a group, and names that no shard has
		"c/99999", "c", "c/d/assigner", "c/d/7", "/assigner", "/3",
	})
	if want := []string{"a", "a/0", "b/assigner", "c/01", "c/-1", "c/+3", "c/99999", "c", "/assigner", "/3"}; !slices.Equal(others, want) {
		t.Errorf("others: %q, want %q", others, want)
	}
	if want := map[string]shard.Set{"c": {1, 2, 10}, "c/d": {7}}; !maps.EqualFunc(groups, want, slices.Equal) {
		t.Errorf("groups: %v, want %v", groups, want)
	}
}

// A group must not have the name of an election: `mandate status orders` would be about
// one of them.
func TestNameOfAnElection(t *testing.T) {
	testcluster.Bubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		c.Start("candidate").Elected(lease)
		g := newGroup(t, c, 4)
		err := g.join("a").ended(t, time.Second)
		if !errors.Is(err, elector.ErrPermanent) || !strings.Contains(err.Error(), "group orders: permanent misconfiguration: an election has this name: choose another one, or remove its keys") {
			t.Errorf("Run: %v", err)
		}
	})
}

func named(election string) func(*elector.Config) {
	return func(cfg *elector.Config) { cfg.Election = election }
}

// The other way round: an election that has the name of a group would leave its counter beside the
// group's keys, and the members would end on finding it without these; one that has the name of a shard's
// would campaign for that shard's lock. Both are refused before they write anything, whichever way they
// campaign, and free once the group is forgotten.
func TestNameOfAGroup(t *testing.T) {
	testcluster.Bubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		g := newGroup(t, c, 4)
		g.joins("a", "b")
		refused := func(name string, err error) {
			t.Helper()
			want := name + " is an election of the group of shards orders: choose another name for the election (mandate shards orders shows the group"
			if name == "orders" {
				want = "a group of shards has the name orders: choose another name for the election (mandate shards orders shows"
			}
			if !errors.Is(err, elector.ErrPermanent) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", name, err)
			}
			for _, key := range []string{"lock", "fence", "new", "id"} {
				if c.Holding("mandate:{orders}:"+key)+c.Holding("mandate:{orders/99}:"+key) > 0 {
					t.Errorf("%s is left behind", key)
				}
			}
		}
		c.Nodes[2].Set(testredis.Down)
		// Whatever the number of its shards: another group of that name may have more.
		for _, name := range []string{"orders", "orders/3", "orders/99", "orders/16383", "orders/assigner"} {
			refused(name, c.Start("x", named(name)).Ended(time.Second))
			refused(name, c.Start("o", named(name), func(cfg *elector.Config) { cfg.Observer = true }).Ended(time.Second))
			_, err := testcluster.NewCandidate(t, c.Quorum("z"), "z", named(name)).Campaign(t.Context())
			refused(name, err)
		}

		// Who reads a shard's election is no candidate in it.
		el := testcluster.ElectionOf(c.Quorum("reader"), shard.ElectionOf("orders", 3))
		if st, err := el.Status(t.Context()); err != nil || st.Leader == nil {
			t.Errorf("status: %+v, %v", st, err)
		}
		if h, err := el.History(t.Context(), 5); err != nil || len(h) == 0 {
			t.Errorf("history: %v, %v", h, err)
		}

		// One that could not ask campaigns, and is refused as soon as it can.
		c.Each(testredis.Down, "late")
		late := c.Start("late", named("orders"))
		time.Sleep(3 * lease)
		if !late.Running() {
			t.Error("ended while Redis is away")
		}
		c.Each(testredis.Fault{}, "late")
		refused("orders", late.Ended(3*lease))
		if !g.l.even(4, "a", "b") {
			t.Errorf("%v", g.l.counts())
		}
		// A member that joins the group is one, as the assigner, too.
		g.join("c")
		g.eventually(lease, "all three own shards", func() bool { return g.l.even(4, "a", "b", "c") })
	})
}
