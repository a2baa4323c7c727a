package elector_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// A term that is over is closed, also for a caller whose context has ended
// meanwhile: both channels are ready then.
func TestResignOfATermThatIsOverSucceeds(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		a := makeCandidate(t, c.Quorum("a"), "a")
		term, err := a.Campaign(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := term.Close(ended); !errors.Is(err, context.Canceled) {
			t.Errorf("while it is being released: %v", err)
		}
		if err := term.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 100 {
			if err := term.Close(ended); err != nil {
				t.Fatalf("after its end: %v", err)
			}
		}
	})
}

// Whoever resigns must not find the term valid a moment later, while the state machine is busy. With Warm it
// is valid until the next leader is warm.
func TestResignEndsTheTermAtOnce(t *testing.T) {
	for name, warm := range map[string]func(context.Context) error{
		"without Warm": nil,
		"with Warm":    func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, c *cluster) {
				term := c.Start("a", withWarm(warm)).Elected(3 * shortLease)
				c.Start("b", withWarm(warm))
				time.Sleep(shortLease)
				term.Resign()
				if got := term.Valid(); got != (warm != nil) {
					t.Errorf("after Resign the term is valid: %v", got)
				}
				wantReason(t, term, shortLease, elector.ReasonResigned)
			})
		})
	}
}

func withWarm(warm func(context.Context) error) func(*elector.Config) {
	return func(cfg *elector.Config) { cfg.Warm = warm }
}
