package elector_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// A rolling deploy starts a replica of the new version before it stops one of the old, in an order
// that nobody chooses. The leadership moves once, to the new version: a leader that stops hands
// over to none that is about to be stopped, too.
func TestDeployMovesTheLeadershipOnce(t *testing.T) {
	for _, s := range []elector.Succession{elector.SuccessionSeniority, elector.SuccessionPriority} {
		t.Run(string(s), func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, c *cluster) {
				const deploys, replicas = 10, 5
				random := rand.New(rand.NewPCG(1, 2))
				start := func(version, i int) *candidate {
					return c.Start(fmt.Sprintf("v%d-%d", version, i), func(cfg *elector.Config) {
						cfg.Succession, cfg.Version = s, fmt.Sprintf("1.%d.0", version)
					})
				}
				var running []*candidate
				for i := range replicas {
					running = append(running, start(0, i))
				}
				_, _ = first(t, 3*shortLease, running...)
				time.Sleep(shortLease)
				once := 0
				for deploy := range deploys {
					var fresh []*candidate
					moves := 0
					for i, old := range random.Perm(replicas) {
						fresh = append(fresh, start(deploy+1, i))
						time.Sleep(time.Duration(random.IntN(2000)) * time.Millisecond)
						leads := running[old].IsLeader()
						running[old].Shutdown()
						if leads {
							moves++
						}
						time.Sleep(time.Duration(random.IntN(2000)) * time.Millisecond)
					}
					time.Sleep(shortLease)
					if moves == 1 {
						once++
					}
					running = fresh
				}
				if once != deploys {
					t.Errorf("%d of %d deploys moved the leadership once", once, deploys)
				}
			})
		})
	}
}
