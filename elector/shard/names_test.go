package shard_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/proof/testcluster"
	"github.com/mandate-dev/mandate/elector/shard"
)

func TestSplit(t *testing.T) {
	others, groups := shard.Split([]string{
		"a", "a/0", "c", "c#01", "c#-1", "c#+3", "c#99999", "#assigner", "#3", "c#d#7", "c#d#assigner", // no elections of a group
		"c#1", "c#10", "c#2", "c#assigner", "c/d#7", "e#assigner",
	})
	if want := []string{"a", "a/0", "c", "c#01", "c#-1", "c#+3", "c#99999", "#assigner", "#3", "c#d#7", "c#d#assigner"}; !slices.Equal(others, want) {
		t.Errorf("others: %q, want %q", others, want)
	}
	if want := map[string]shard.Set{"c": {1, 2, 10}, "c/d": {7}, "e": nil}; !maps.EqualFunc(groups, want, slices.Equal) {
		t.Errorf("groups: %v, want %v", groups, want)
	}
}

// A group and an election of the same name do not meet. No other candidate comes near a shard's election, whichever
// way it campaigns, and no name of a group looks like one.
func TestNamesOfGroupsAndElections(t *testing.T) {
	testcluster.Bubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		named := func(election string) func(*elector.Config) {
			return func(cfg *elector.Config) { cfg.Election = election }
		}
		same := c.Start("candidate", named("orders"))
		same.Elected(lease)
		g := newGroup(t, c, 4)
		g.joins("a", "b")
		for _, name := range []string{"orders#3", "orders#99", "orders#assigner", "other#x"} {
			observed := c.Start("o", named(name), func(cfg *elector.Config) { cfg.Observer = true }).Ended(time.Second)
			_, campaigned := testcluster.NewCandidate(t, c.Quorum("z"), "z", named(name)).Campaign(t.Context())
			for _, err := range []error{c.Start("x", named(name)).Ended(time.Second), observed, campaigned} {
				if !errors.Is(err, elector.ErrPermanent) || !strings.Contains(err.Error(), "only members of a group of shards campaign in "+name) {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
		if c.Holding("mandate:{orders#99}:id")+c.Holding("mandate:{other#x}:id") > 0 {
			t.Error("a trace is left behind")
		}
		if _, err := shard.New(c.Quorum("c"), shard.Config{Group: "orders#3", Shards: 4}); err == nil {
			t.Error("a group has the name of a shard's election")
		}
		// Who reads a shard's election is no candidate in it.
		el := testcluster.ElectionOf(c.Quorum("reader"), shard.ElectionOf("orders", 3))
		if st, err := el.Status(t.Context()); err != nil || st.Leader == nil {
			t.Errorf("status: %+v, %v", st, err)
		}
		if h, err := el.History(t.Context(), 5); err != nil || len(h) == 0 {
			t.Errorf("history: %v, %v", h, err)
		}
		if !g.l.even(4, "a", "b") || !same.Running() {
			t.Errorf("%v", g.l.counts())
		}
	})
}
