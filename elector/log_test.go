package elector_test

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// stuck is a log handler that blocks.
type stuck struct{ slog.Handler }

func (stuck) Handle(context.Context, slog.Record) error { time.Sleep(time.Hour); return nil }

// A log that takes no lines, such as a full pipe, costs no term, and keeps neither the lock nor Run.
func TestLogThatBlocksKeepsNoLock(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a := makeCandidate(t, c.Quorum("a"), "a", func(cfg *elector.Config) { cfg.Logger = slog.New(stuck{slog.NewTextHandler(io.Discard, nil)}) }).Begin(nil)
		term := a.Elected(3 * shortLease)
		time.Sleep(3 * shortLease)
		continues(t, term)
		a.Stop()
		if err := a.Ended(shortLease); err != nil || c.Locks() != 0 {
			t.Errorf("%v, and %d locks are left", err, c.Locks())
		}
		time.Sleep(24 * time.Hour) // its lines are written
	})
}
