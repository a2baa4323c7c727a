package realtest_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/proof/testcluster"
	"github.com/mandate-dev/mandate/elector/shard"
)

// groupRights are what a member of a group needs beyond the rights of a candidate, as
// docs/redis.md has it.
var groupRights = []string{"+hset", "+hget", "+hgetall", "+hdel", "+exists"}

// ownsAll runs a member with these rights, and reports whether it came to own all shards.
func ownsAll(t *testing.T, rights []string, within time.Duration) (owned bool, log *testcluster.Logbook) {
	t.Helper()
	s := guarded(t, candidates, rights)
	log = &testcluster.Logbook{}
	m, err := shard.New(as(t, candidates, s), shard.Config{
		Group: "orders", Shards: 3, Lease: 2 * time.Second, Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- m.Run(ctx, func(ctx context.Context, _ *shard.Term) error {
			<-ctx.Done()
			return nil
		})
	}()
	for began := time.Now(); time.Since(began) < within && !owned; time.Sleep(20 * time.Millisecond) {
		owned = len(m.Owned()) == 3
	}
	stop()
	if err := <-done; err != nil {
		if !errors.Is(err, elector.ErrPermanent) || !strings.Contains(err.Error(), "docs/redis.md") {
			t.Error(err)
		}
		log.Logger().Warn("Run ended", "error", err)
	}
	return owned, log
}

// The documented rights suffice for a group, and each of them is used: without one the log
// names what is missing.
func TestRealACLGroup(t *testing.T) {
	t.Parallel()
	all := append(shipped(t, candidates), groupRights...)
	if owned, log := ownsAll(t, all, 30*time.Second); !owned {
		t.Fatalf("the documented rights don't suffice:\n%s", strings.Join(log.Lines(), ""))
	}
	for i, right := range groupRights {
		t.Run(right, func(t *testing.T) {
			t.Parallel()
			rights := slices.Concat(shipped(t, candidates), groupRights[:i], groupRights[i+1:])
			_, log := ownsAll(t, rights, 3*time.Second)
			if len(log.Lines("level=WARN", "docs/redis.md")) == 0 {
				t.Errorf("the log does not say what is missing:\n%s", strings.Join(log.Lines(), ""))
			}
		})
	}
}
