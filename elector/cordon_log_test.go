package elector_test

import (
	"context"
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

// Regression: the log of the first candidate was written under the lock that the claims of all others in the process
// take: one whose reader hung kept them all from leading.
func TestHungLogOfCordons(t *testing.T) {
	electortest.Test(t, func(t *testing.T, r *electortest.Redis) {
		if err := r.Client("x").Set(t.Context(), "mandate:cordons", "no hash", 0).Err(); err != nil {
			t.Fatal(err)
		}
		hung := hungLog{slog.DiscardHandler, make(chan struct{}), "cordoned"}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		defer close(hung.until)
		q := r.Quorum("a")
		var last *elector.Elector
		for i, h := range []slog.Handler{hung, slog.DiscardHandler} {
			e, err := elector.New(q, elector.Config{Election: []string{"first", "second"}[i], ID: "a", Lease: 10 * time.Second, Logger: slog.New(h)})
			if err != nil {
				t.Fatal(err)
			}
			wg.Go(func() {
				_ = e.Run(ctx, func(ctx context.Context, _ *elector.Term) error { <-ctx.Done(); return nil })
			})
			time.Sleep(time.Second)
			last = e
		}
		time.Sleep(20 * time.Second)
		if !last.IsLeader() {
			t.Error("a candidate does not lead beside one whose log hangs")
		}
	})
}
