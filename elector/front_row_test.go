package elector_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// The leaders of handovers that follow each other within a lease come from the front row, and rest afterwards: others take
// their places. Regression: the row was empty after eight of them, and the ninth release waited for the followers behind it.
func TestFrontRowIsFilledBetweenHandovers(t *testing.T) {
	const followers, handovers = 40, 13
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprintf("n=%d", n), func(t *testing.T) {
			bubble(t, n, func(t *testing.T, c *cluster) {
				long := func(cfg *elector.Config) { cfg.Lease, cfg.Cooldown = time.Minute, time.Hour }
				leader := c.Start("f0", long)
				leader.Elected(3 * time.Minute)
				var waiting []*candidate
				for i := range followers {
					waiting = append(waiting, c.Start(fmt.Sprintf("f%d", i+1), long))
				}
				time.Sleep(3 * time.Minute)
				for i := range handovers {
					began := time.Now()
					go func(l *candidate) { _ = l.Resign(context.Background()) }(leader)
					leader, _ = first(t, time.Minute, waiting...)
					if took := time.Since(began); took > 7*time.Millisecond {
						t.Errorf("handover %d takes %v", i+1, took)
					}
					waiting = slices.DeleteFunc(waiting, func(w *candidate) bool { return w == leader })
					time.Sleep(2200 * time.Millisecond) // all within half a lease: later all followers claim once by themselves
				}
			})
		})
	}
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
