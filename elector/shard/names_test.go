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

func named(election string) func(*elector.Config) {
	return func(cfg *elector.Config) { cfg.Election = election }
}

// An election that has the name of a shard's would campaign for that shard's lock. It is refused
// while the group exists, whichever way it campaigns, and the owners keep their shards.
func TestNameOfAShard(t *testing.T) {
	testcluster.Bubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		g := newGroup(t, c, 4)
		g.joins("a", "b")
		refused := func(name string, err error) {
			t.Helper()
			want := name + " is an election of the group of shards orders: choose another name for the election (mandate shards orders shows the group"
			if !errors.Is(err, elector.ErrPermanent) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", name, err)
			}
		}
		c.Nodes[2].Set(testredis.Down)
		// Whatever the number of its shards: another group of that name may have more.
		for _, name := range []string{"orders/3", "orders/99", "orders/16383", "orders/assigner"} {
			refused(name, c.Start("x", named(name)).Ended(time.Second))
			refused(name, c.Start("o", named(name), func(cfg *elector.Config) { cfg.Observer = true }).Ended(time.Second))
		}
		_, err := testcluster.NewCandidate(t, c.Quorum("y"), "y", named("orders/3")).TryCampaign(t.Context())
		refused("orders/3", err)
		_, err = testcluster.NewCandidate(t, c.Quorum("z"), "z", named("orders/3")).Campaign(t.Context())
		refused("orders/3", err)
		if c.Holding("mandate:{orders/99}:id") > 0 || c.Holding("mandate:{orders/99}:fence") > 0 {
			t.Error("orders/99 left keys behind")
		}

		// Who reads a shard's election is no candidate in it.
		el := testcluster.ElectionOf(c.Quorum("reader"), shard.ElectionOf("orders", 3))
		if st, err := el.Status(t.Context()); err != nil || st.Leader == nil {
			t.Errorf("status: %+v, %v", st, err)
		}
		if h, err := el.History(t.Context(), 5); err != nil || len(h) == 0 {
			t.Errorf("history: %v, %v", h, err)
		}
		// A member that joins the group is one, as the assigner, too.
		g.join("c")
		g.eventually(lease, "all three own shards", func() bool { return g.l.even(4, "a", "b", "c") })
	})
}

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
