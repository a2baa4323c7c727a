package electorprom_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/electorprom"
	"github.com/mandate-dev/mandate/elector/proof/testcluster"
	"github.com/mandate-dev/mandate/elector/shard"
)

// A member's series are there before it runs, and follow what it owns.
func TestMemberSeries(t *testing.T) {
	testcluster.Bubble(t, 3, func(t *testing.T, c *testcluster.Cluster) {
		m, err := shard.New(c.Quorum("a"), shard.Config{Group: "orders", Shards: 12, ID: "a", Lease: lease, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		metrics := electorprom.NewMember(m)
		wants := func(when string, want map[string]float64) {
			t.Helper()
			got := scrape(t, metrics)
			for name, v := range want {
				if found, ok := got[name+"{orders}"]; !ok || found != v {
					t.Errorf("%s: %s is %v (%v), want %v", when, name, found, ok, v)
				}
			}
		}
		none := map[string]float64{
			"mandate_member_shards_owned": 0, "mandate_member_group_shards": 12, "mandate_member_able": 0,
			"mandate_member_lease_left_seconds": 0, "mandate_member_lease_seconds": lease.Seconds(),
		}
		wants("before it runs", none)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			done <- m.Run(ctx, func(ctx context.Context, _ *shard.Term) error { <-ctx.Done(); return nil })
		}()
		time.Sleep(2 * time.Second)
		wants("while it runs", map[string]float64{"mandate_member_shards_owned": 12, "mandate_member_able": 1})
		if left := scrape(t, metrics)["mandate_member_lease_left_seconds{orders}"]; left <= 0 || left > lease.Seconds() {
			t.Errorf("%v s of the leases are left", left)
		}
		stop()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		wants("after its end", none)
	})
}
