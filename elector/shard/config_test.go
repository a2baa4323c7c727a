package shard_test

import (
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/testredis"
	"github.com/mandate-dev/mandate/elector/proof/testcluster"
	"github.com/mandate-dev/mandate/elector/shard"
	"github.com/mandate-dev/mandate/health"
)

func TestBadConfig(t *testing.T) {
	testcluster.Bubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		q := c.Quorum("q")
		for want, cfg := range map[string]shard.Config{
			"Group is empty":   {Shards: 1},
			"Group is \"a b\"": {Group: "a b", Shards: 1},
			"Shards is 0":      {Group: "g"},
			"Shards is 16385":  {Group: "g", Shards: 16385},
			"Weight is -1":     {Group: "g", Shards: 1, Weight: -1},
			"Weight is NaN":    {Group: "g", Shards: 1, Weight: math.NaN()},
			"Lease is 100ms":   {Group: "g", Shards: 1, Lease: 100 * time.Millisecond},
			"ID is \"a b\"":    {Group: "g", Shards: 1, ID: "a b"},
			"Cooldown is -1s":  {Group: "g", Shards: 1, Cooldown: -time.Second},
			"at most 24h0m0s":  {Group: "g", Shards: 1, Cooldown: 25 * time.Hour},
			"Lease is 10ns: give at least 1ms (was the unit forgotten": {Group: "g", Shards: 1, Lease: 10},
			"Cooldown is 30ns: give at least 1ms":                      {Group: "g", Shards: 1, Cooldown: 30},
			"DrainTimeout is 5ns: give at least 1ms":                   {Group: "g", Shards: 1, DrainTimeout: 5},
			"StopMargin is 2ns: give at least 1ms":                     {Group: "g", Shards: 1, StopMargin: 2},
		} {
			if _, err := shard.New(q, cfg); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %v, want %q", cfg, err, want)
			}
		}
		// The program makes a shard's probe from what it knows of the shard: New may ask for none.
		cfg := shard.Config{Group: "g", WorkProbe: func(int) health.Probe { panic("a probe of no shard") }, WorkProbeSettings: health.Settings{Interval: -time.Second}}
		if _, err := shard.New(q, cfg); err == nil || !strings.Contains(err.Error(), "Shards is 0") || !strings.Contains(err.Error(), "Interval is -1s") {
			t.Errorf("%v", err)
		}
		// All at once, each under the name of its setting, those that an election refuses, too.
		var all *elector.ConfigError
		_, err := shard.New(q, shard.Config{ID: "a b", StopMargin: time.Hour})
		settings := map[string]bool{}
		if errors.As(err, &all) {
			all.Problems(func(setting string) string { settings[setting] = true; return setting })
		}
		if len(settings) != 4 || !settings["Group"] || !settings["Shards"] || !settings["ID"] || !settings[""] {
			t.Errorf("problems with %v: %v", settings, err)
		}
		if _, err := shard.New(nil, shard.Config{Group: "g", Shards: 1}); err == nil {
			t.Error("New took no quorum")
		}
		if _, err := shard.New(&elector.Quorum{}, shard.Config{Group: "g", Shards: 1}); err == nil {
			t.Error("New took the zero quorum")
		}
	})
}

// A key of one shard that another program has written costs that shard alone.
func TestBadKeyOfOneShard(t *testing.T) {
	testcluster.Bubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		for _, n := range c.Nodes {
			_, err := n.Server().Push("mandate:{orders#5}:next", "x")
			must(t, err)
		}
		g := newGroup(t, c, 6)
		a, b := g.join("a"), g.join("b")
		time.Sleep(6 * lease)
		if n := len(a.Owned()) + len(b.Owned()); n != 5 {
			t.Errorf("a owns %v and b %v, want all but 5", a.Owned(), b.Owned())
		}
	})
}

// A member with another number of shards, or another lease, is refused with the reason.
func TestOtherSettings(t *testing.T) {
	grouped(t, 3, 8, func(t *testing.T, c *testcluster.Cluster, g *group) {
		g.joins("a")
		b := g.join("b", func(c *shard.Config) { c.Shards, c.Lease = 16, lease/2 })
		err := b.ended(t, 2*time.Second)
		if err == nil || !strings.Contains(err.Error(), "the members of the group have 8 shards and a lease of 10s, this one 16 shards and a lease of 5s: all members need the same") {
			t.Errorf("Run: %v", err)
		}
		if lines := g.log.Lines("cannot campaign"); len(lines) > 0 {
			t.Errorf("nodes that answer are logged as unreachable: %v", lines)
		}
		if lines := g.log.Lines("level=ERROR"); len(lines) != 1 || !strings.Contains(lines[0], "all members need the same") {
			t.Errorf("logged %q", lines)
		}
	})
}

// A member that was away while the group was started anew with another number of shards ends, and
// owns nothing before.
func TestOtherSettingsMeanwhile(t *testing.T) {
	grouped(t, 3, 8, func(t *testing.T, c *testcluster.Cluster, g *group) {
		a := g.joins("a")[0]
		c.Each(testredis.Cut, "a")
		time.Sleep(3 * lease)
		g.shards = 6
		g.l = newLedger(t)
		b := g.join("b")
		g.eventually(2*time.Second, "b owns all", func() bool { return g.l.even(6, "b") })
		b.stop() // its locks are free, and its group is remembered
		_ = b.ended(t, lease)
		c.Heal()
		if err := a.ended(t, lease); err == nil || !strings.Contains(err.Error(), "the members of the group have 6 shards") {
			t.Errorf("Run: %v", err)
		}
		if n := g.l.counts()["a"]; n > 0 {
			t.Errorf("a owns %d shards", n)
		}
	})
}

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
			_, campaigned := testcluster.NewCandidate(t, c.Quorum("z"), "z", named(name)).Campaign(t.Context())
			for _, err := range []error{c.Start("x", named(name)).Ended(time.Second), campaigned} {
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
