package elector_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/health"
)

// An unhealthy follower does not claim when the leader releases: in the front row it
// would keep the place of one that does.
func TestUnhealthyLeavesTheFrontRow(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		c.Start("a").Elected(3 * shortLease)
		var unhealthy atomic.Bool
		c.Start("b", func(cfg *elector.Config) {
			cfg.Probe = health.Func(func(context.Context) error {
				if unhealthy.Load() {
					return errors.New("disk full")
				}
				return nil
			})
		})
		inRow := func() int {
			n, err := c.Client("operator", 0).PubSubNumSub(t.Context(), "mandate:{orders}:wake").Result()
			if err != nil {
				t.Fatal(err)
			}
			return int(n["mandate:{orders}:wake"])
		}
		for _, fails := range []bool{false, true, false} {
			unhealthy.Store(fails)
			time.Sleep(4 * shortLease)
			if got, want := inRow(), map[bool]int{false: 1, true: 0}[fails]; got != want {
				t.Errorf("unhealthy %v: %d in the front row, want %d", fails, got, want)
			}
		}
	})
}

// Regression: the winner's "elected" overtakes the "released" before it on the channel of
// events, and every follower that received the latter claimed, although a leader was known.
func TestReleaseCostsFewClaims(t *testing.T) {
	for n, followers := range map[int]int{1: 100, 3: 40} {
		t.Run(fmt.Sprintf("n=%d", n), func(t *testing.T) {
			bubble(t, n, func(t *testing.T, c *cluster) {
				leader := c.Start("leader")
				leader.Elected(3 * shortLease)
				var all []*candidate
				for i := range followers {
					all = append(all, c.Start(fmt.Sprintf("f%d", i)))
				}
				time.Sleep(3 * shortLease)
				began := time.Now()
				leader.Shutdown()
				first(t, time.Second, all...)
				time.Sleep(50 * time.Millisecond)
				if claims, _ := claims(c.Nodes[0], began); claims > 20 {
					t.Errorf("%d claims for one release", claims)
				}
			})
		})
	}
}
