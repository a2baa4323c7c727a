package elector_test

import (
	"context"
	"errors"
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
		c.start("a").elected(3 * shortLease)
		var sick atomic.Bool
		c.start("b", func(cfg *elector.Config) {
			cfg.Probe = health.Func(func(context.Context) error {
				if sick.Load() {
					return errors.New("disk full")
				}
				return nil
			})
		})
		inRow := func() int {
			n, err := c.client("operator", 0).PubSubNumSub(t.Context(), "mandate:{orders}:wake").Result()
			if err != nil {
				t.Fatal(err)
			}
			return int(n["mandate:{orders}:wake"])
		}
		for _, ill := range []bool{false, true, false} {
			sick.Store(ill)
			time.Sleep(4 * shortLease)
			if got, want := inRow(), map[bool]int{false: 1, true: 0}[ill]; got != want {
				t.Errorf("unhealthy %v: %d in the front row, want %d", ill, got, want)
			}
		}
	})
}
