package shard_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/testredis"
	"github.com/mandate-dev/mandate/elector/proof/testcluster"
	"github.com/mandate-dev/mandate/elector/shard"
	"github.com/mandate-dev/mandate/health"
)

// The keys of the group.
const (
	planKey    = "mandate:{orders}:plan"
	membersKey = "mandate:{orders}:members"
	groupKey   = "mandate:{orders}:group"
)

// Anything that another program writes over the plan costs balance for a moment at most: a
// plan of a later term than any, one that gives all to one member, garbage.
func TestForgedPlan(t *testing.T) {
	forged := map[string]string{
		"a later term": `9007199254740991.1 {"shards":12,"members":[{"id":"x","incarnation":"x","planned":"0-11"}]}`,
		"garbage":      "\x00\xff not a plan",
		"other shards": `9007199254740991.1 {"shards":99999999,"members":[]}`,
	}
	for name, value := range forged {
		t.Run(name, func(t *testing.T) {
			testcluster.Bubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
				g := newGroup(t, c, 12)
				g.joins("a", "b")
				for _, n := range c.Nodes {
					if err := n.Server().Set(planKey, value); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(lease)
				g.eventually(lease, "even again", func() bool { return g.l.even(12, "a", "b") })
				g.join("c")
				g.eventually(2*lease, "a later member gets its part", func() bool { return g.l.even(12, "a", "b", "c") })
			})
		})
	}
}

// A member that has lived for a lease takes no shard from an owner when all nodes forget who
// that is, although it campaigns for that shard for the first time: the owner, which is cut
// off, keeps it until its lease ends.
func TestLossOfAllData(t *testing.T) {
	testcluster.Bubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		g := newGroup(t, c, 12)
		g.joins("a", "b")
		time.Sleep(3 * lease)
		c.Each(testredis.Cut, "b")
		for _, n := range c.Nodes {
			n.Server().FlushAll()
		}
		g.eventually(2*lease, "a owns all", func() bool { return g.l.even(12, "a") })
	})
}

// A member that is forged well is given shards that it never takes: they stay where they are.
func TestForgedMemberCostsNoOwner(t *testing.T) {
	testcluster.Bubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		g := newGroup(t, c, 12)
		g.joins("a", "b")
		for range 30 {
			for _, n := range c.Nodes {
				n.Server().HSet(membersKey, "x", `99999999999999 {"id":"x","incarnation":"x","weight":1,"owned":"","unable":""}`)
			}
			time.Sleep(lease / 10)
			if !g.l.even(12, "a", "b") {
				t.Fatalf("a member that never campaigns took shards from others: %v", g.l.counts())
			}
		}
	})
}

// A node's clock that is set back must not keep a dead member alive until it has caught up.
func TestClockOfANodeSetBack(t *testing.T) {
	testcluster.Bubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		g := newGroup(t, c, 6)
		g.joins("a", "b")
		time.Sleep(lease)
		n := c.Nodes[0]
		n.Set(testredis.Cut, "b")
		for range 30 {
			n.Server().SetTime(time.Now().Add(-time.Hour))
			time.Sleep(lease / 10)
		}
		if !g.l.even(6, "a") {
			t.Errorf("three leases after b's death: %v", g.l.counts())
		}
	})
}

// Without an assigner, as when its election is paused, every member keeps what it owns.
func TestNoAssigner(t *testing.T) {
	testcluster.Bubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		g := newGroup(t, c, 8)
		g.joins("a", "b")
		el := testcluster.ElectionOf(c.Quorum("operator"), "orders/assigner")
		if err := el.Pause(context.Background(), 0, "test"); err != nil {
			t.Fatal(err)
		}
		if _, err := el.StepDown(context.Background(), "test"); err == nil {
			t.Fatal("an assigner was elected in a pause")
		}
		time.Sleep(3 * lease)
		if !g.l.even(8, "a", "b") {
			t.Errorf("%v", g.l.counts())
		}
		if err := el.Resume(context.Background()); err != nil {
			t.Fatal(err)
		}
		g.join("c")
		g.eventually(lease, "even after the pause", func() bool { return g.l.even(8, "a", "b", "c") })
	})
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
			if _, err := n.Server().Push("mandate:{orders/5}:next", "x"); err != nil {
				t.Fatal(err)
			}
		}
		g := newGroup(t, c, 6)
		a, b := g.join("a"), g.join("b")
		time.Sleep(6 * lease)
		if n := len(a.Owned()) + len(b.Owned()); n != 5 {
			t.Errorf("a owns %v and b %v, want all but 5", a.Owned(), b.Owned())
		}
	})
}

// A member whose requests arrive, and which gets its answers too late or never, leaves the shards to
// the others.
func TestSlowLine(t *testing.T) {
	for name, line := range map[string]testredis.Fault{
		"late":  {Delay: 1200 * time.Millisecond},
		"never": {Down: testredis.Hold}, // nor does the plan arrive that would end its candidacies
	} {
		t.Run(name, func(t *testing.T) {
			testcluster.Bubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
				g := newGroup(t, c, 8)
				g.joins("x")
				c.Each(line, "x")
				time.Sleep(lease)
				g.join("a")
				g.join("b")
				g.eventually(10*lease, "a and b own all", func() bool { return g.l.even(8, "a", "b") })
			})
		})
	}
}
