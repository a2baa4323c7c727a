package simtest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/testredis"
	"github.com/mandate-dev/mandate/elector/proof/testcluster"
)

// TestSimulationOfLoad runs elections on nodes of which each can serve 1/load of the renewals of all, through an outage of
// two leases: below a load of 1 all lead again and stay, above it some do not lead, and those that do rarely end.
func TestSimulationOfLoad(t *testing.T) {
	const elections, lease = 150, testcluster.Lease
	for load, want := range map[float64]struct {
		lead int64         // at least
		soon time.Duration // after the outage
		ends int64         // of terms, at most
	}{0.7: {elections, 3 * lease, 0}, 1.0: {elections * 3 / 4, 4 * lease, elections / 10}, 1.3: {elections / 2, 4 * lease, elections / 10}} {
		t.Run(fmt.Sprint(load), func(t *testing.T) {
			t.Parallel()
			testcluster.Bubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
				for _, n := range c.Nodes {
					serveSlowly(n, time.Duration(load*float64(lease/4)/elections))
				}
				var lead, ended atomic.Int64
				q := c.Quorum("process")
				for i := range elections {
					one := func(cfg *elector.Config) { cfg.Election = fmt.Sprint("election-", i) }
					testcluster.NewCandidate(t, q, "a", one).Begin(func(ctx context.Context, _ *elector.Term) error {
						lead.Add(1)
						<-ctx.Done()
						lead.Add(-1)
						ended.Add(1)
						return nil
					})
				}
				time.Sleep(10 * lease)
				c.Hang(0, 1, 2)
				time.Sleep(2 * lease)
				c.Heal()
				time.Sleep(want.soon)
				led, before := lead.Load(), ended.Load()
				time.Sleep(10 * lease)
				t.Logf("%d of %d lead %v after the outage, then %d, and %d terms have ended", led, elections, want.soon, lead.Load(), ended.Load()-before)
				if min(led, lead.Load()) < want.lead || ended.Load()-before > want.ends {
					t.Errorf("want at least %d to lead, and at most %d to end", want.lead, want.ends)
				}
			})
		})
	}
}

// serveSlowly makes a node serve one request at a time, each election's in that time.
func serveSlowly(n *testredis.Node, each time.Duration) {
	core := make(chan struct{}, 1)
	n.On(func(c testredis.Call, _ *server.Peer) bool {
		core <- struct{}{}
		all := testredis.Requests("EVALSHA", append([]string{testredis.Script(c.Script).Source()}, c.Args...)...)
		time.Sleep(time.Duration(len(all)) * each)
		<-core
		return false
	})
}
