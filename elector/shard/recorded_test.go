package shard_test

import (
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/proof/testcluster"
	"github.com/mandate-dev/mandate/elector/shard"
)

// A member that leaves has the end of every term recorded before Run returns, also when the nodes
// refuse all requests for a moment just after the releases: nothing is left to do it afterwards.
func TestLeaveIsRecorded(t *testing.T) {
	onNodes(t, func(t *testing.T, c *testcluster.Cluster) {
		const shards = 200
		g := newGroup(t, c, shards)
		a := g.join("a")
		g.eventually(2*time.Second, "all shards are owned", func() bool { return g.l.even(shards, "a") })
		time.Sleep(lease)
		a.stop()
		testcluster.Eventually(t, lease, "the locks are released", func() bool {
			for _, n := range c.Nodes {
				for _, key := range n.Server().Keys() {
					if strings.HasSuffix(key, ":lock") && !strings.Contains(key, "/assigner") {
						return false
					}
				}
			}
			return true
		})
		for _, n := range c.Nodes {
			n.RefuseWith("LOADING Redis is loading the dataset in memory")
		}
		time.Sleep(lease / 8)
		for _, n := range c.Nodes {
			n.RefuseWith("")
		}
		if err := a.ended(t, lease/4); err != nil {
			t.Error(err)
		}
		q := c.Quorum("operator")
		for s := range shards {
			el, err := q.Election(shard.ElectionOf("orders", s))
			if err != nil {
				t.Fatal(err)
			}
			terms, err := el.History(t.Context(), 1)
			if err != nil || len(terms) != 1 || terms[0].Reason != elector.ReasonShutdown {
				t.Fatalf("shard %d: %+v, %v", s, terms, err)
			}
		}
	})
}
