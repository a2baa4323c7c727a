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

// Renewals are made without the state machine, by goroutines that many elections share. What one of them logs of its own
// must not cost the others their terms.
func TestHungLogOfARenewal(t *testing.T) {
	electortest.Test(t, func(t *testing.T, r *electortest.Redis) {
		const lease = 10 * time.Second
		// The first stands before the others, whose renewals are due at the same moments.
		all := besideHungLog(t, r, "advertised address", 3, lease, 10*time.Millisecond)
		time.Sleep(lease + time.Second)
		tokens := []uint64{all[1].Term().Token(), all[2].Term().Token()}
		if err := all[0].SetAdvertise("10.0.0.1:80"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * lease)
		if all[0].IsLeader() {
			t.Error("a leader whose state machine hangs is renewed")
		}
		for i, e := range all[1:] {
			if term := e.Term(); term == nil || term.Token() != tokens[i] {
				t.Errorf("election %d has lost its term to the log of another one", i+1)
			}
		}
	})
}
