package elector_test

import (
	"context"
	"errors"
	"testing"

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
