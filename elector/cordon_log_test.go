package elector_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electortest"
)

// hungLog is a log whose reader hangs at messages of something.
type hungLog struct {
	slog.Handler
	until chan struct{}
	of    string
}

func (h hungLog) Enabled(context.Context, slog.Level) bool { return true }
func (h hungLog) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h hungLog) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, h.of) {
		<-h.until
	}
	return nil
}

// besideHungLog starts n candidates of as many elections, one after the other, in one process. The log of the first hangs at
// messages of something until the test ends.
func besideHungLog(t *testing.T, r *electortest.Redis, of string, n int, lease, apart time.Duration) []*elector.Elector {
	hung := hungLog{slog.DiscardHandler, make(chan struct{}), of}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	q := r.Quorum("a")
	t.Cleanup(func() {
		close(hung.until)
		cancel()
		wg.Wait()
	})
	all := make([]*elector.Elector, n)
	for i := range all {
		cfg := elector.Config{Election: fmt.Sprintf("election-%d", i), ID: "a", Lease: lease, Logger: slog.New(slog.DiscardHandler)}
		if i == 0 {
			cfg.Logger = slog.New(hung)
		}
		e, err := elector.New(q, cfg)
		if err != nil {
			t.Fatal(err)
		}
		all[i] = e
		wg.Go(func() {
			_ = e.Run(ctx, func(ctx context.Context, _ *elector.Term) error { <-ctx.Done(); return nil })
		})
		time.Sleep(apart)
	}
	return all
}

// Regression: the log of the first candidate was written under the lock that the claims of all others in the process
// take: one whose reader hung kept them all from leading.
func TestHungLogOfCordons(t *testing.T) {
	electortest.Test(t, func(t *testing.T, r *electortest.Redis) {
		if err := r.Client("x").Set(t.Context(), "mandate:cordons", "no hash", 0).Err(); err != nil {
			t.Fatal(err)
		}
		all := besideHungLog(t, r, "cordoned", 2, 10*time.Second, time.Second)
		time.Sleep(20 * time.Second)
		if !all[1].IsLeader() {
			t.Error("a candidate does not lead beside one whose log hangs")
		}
	})
}
