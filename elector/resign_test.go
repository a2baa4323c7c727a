package elector_test

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/proof/testcluster"
)

// Close releases the lock whatever its context: a program that ends has ended its context before. A
// term that is over is closed, also for such a caller.
func TestCloseReleasesUnderAnEndedContext(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		a := makeCandidate(t, c.Quorum("a"), "a")
		term, err := a.Campaign(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := term.Close(ended); err != nil || c.Locks() != 0 {
			t.Errorf("%v, and %d locks are left", err, c.Locks())
		}
		for range 100 {
			if err := term.Close(ended); err != nil {
				t.Fatalf("after its end: %v", err)
			}
		}
	})
}

// Work that resigns with another context than its own waits for itself, but not for ever.
func TestResignWithAForeignContextInsideTheWork(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		a, got := makeCandidate(t, c.Quorum("a"), "a"), make(chan error, 1)
		a.Begin(func(context.Context, *elector.Term) error {
			got <- a.Resign(context.Background())
			return nil
		}).Elected(3 * shortLease)
		if err, _, came := testcluster.Await(got, shortLease+time.Second); !came || err == nil || !strings.Contains(err.Error(), "its own context") {
			t.Errorf("%v, %v", err, came)
		}
		a.Shutdown()
	})
}

// stuck is a log handler that blocks.
type stuck struct{ slog.Handler }

func (stuck) Handle(context.Context, slog.Record) error { time.Sleep(time.Hour); return nil }

// A log that takes no lines, such as a full pipe, costs no term, and keeps neither the lock nor Run.
func TestLogThatBlocksKeepsNoLock(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a := makeCandidate(t, c.Quorum("a"), "a", func(cfg *elector.Config) { cfg.Logger = slog.New(stuck{slog.NewTextHandler(io.Discard, nil)}) }).Begin(nil)
		term := a.Elected(3 * shortLease)
		time.Sleep(3 * shortLease)
		if !term.Valid() {
			t.Error(term.Err())
		}
		a.Stop()
		if err := a.Ended(shortLease); err != nil || c.Locks() != 0 {
			t.Errorf("%v, and %d locks are left", err, c.Locks())
		}
		time.Sleep(24 * time.Hour) // its lines are written
	})
}

// Whoever resigns must not find the term valid a moment later, while the state machine is busy.
func TestResignEndsTheTermAtOnce(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		term := c.Start("a").Elected(3 * shortLease)
		term.Resign()
		if term.Valid() {
			t.Error("after Resign the term is valid")
		}
		wantReason(t, term, shortLease, elector.ReasonResigned)
	})
}
