package consoletest

import (
	"context"
	"log/slog"
	"testing"

	"github.com/mandate-dev/mandate/elector/electortest"
	"github.com/mandate-dev/mandate/elector/shard"
)

// Member runs a member of a group until the test ends.
func Member(t testing.TB, r *electortest.Redis, group, id string, shards int, change ...func(*shard.Config)) *shard.Member {
	t.Helper()
	cfg := shard.Config{
		Group: group, Shards: shards, ID: id, Advertise: id + ":80", Lease: Lease, Logger: slog.New(slog.DiscardHandler),
	}
	for _, c := range change {
		c(&cfg)
	}
	m, err := shard.New(r.Quorum(id), cfg)
	if err != nil {
		t.Fatal(err)
	}
	untilEnd(t, func(ctx context.Context) error {
		return m.Run(ctx, func(ctx context.Context, _ *shard.Term) error {
			<-ctx.Done()
			return nil
		})
	})
	return m
}
