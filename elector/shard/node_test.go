package shard_test

import (
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/testredis"
	"github.com/mandate-dev/mandate/elector/proof/testcluster"
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
			grouped(t, 3, 12, func(t *testing.T, c *testcluster.Cluster, g *group) {
				g.joins("a", "b")
				for _, n := range c.Nodes {
					must(t, n.Server().Set(planKey, value))
				}
				time.Sleep(lease)
				g.eventually(lease, "even again", func() bool { return g.l.even(12, "a", "b") })
				g.join("c")
				g.eventually(2*lease, "a later member gets its part", func() bool { return g.l.even(12, "a", "b", "c") })
			})
		})
	}
}

// A node's clock that is set back must not keep a dead member alive until it has caught up.
func TestClockOfANodeSetBack(t *testing.T) {
	grouped(t, 1, 6, func(t *testing.T, c *testcluster.Cluster, g *group) {
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

// A member whose requests arrive, and which gets its answers too late or never, leaves the shards to
// the others.
func TestSlowLine(t *testing.T) {
	for name, line := range map[string]testredis.Fault{
		"late":  {Delay: 1200 * time.Millisecond},
		"never": {Down: testredis.Hold}, // nor does the plan arrive that would end its candidacies
	} {
		t.Run(name, func(t *testing.T) {
			grouped(t, 3, 8, func(t *testing.T, c *testcluster.Cluster, g *group) {
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
