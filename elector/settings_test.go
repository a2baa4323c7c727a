package elector_test

import (
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

func TestRefusesToLeadUnderAnotherLease(t *testing.T) {
	for name, other := range map[string]time.Duration{"shorter": shortLease / 2, "longer": 2 * shortLease} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, c *cluster) {
				a := c.Start("a")
				term := a.Elected(3 * shortLease)
				b := c.Start("b", func(cfg *elector.Config) { cfg.Lease = other })
				b.Quiet(10 * shortLease)
				err := b.Check()
				if err == nil || !strings.Contains(err.Error(), "refusing to lead") || !strings.Contains(err.Error(), other.String()) || !strings.Contains(err.Error(), shortLease.String()) {
					t.Errorf("Check: %v", err)
				}
				if lines := b.Log.Lines("cannot campaign", "refusing to lead"); len(lines) != 1 {
					t.Errorf("logged %d times", len(lines))
				}
				if !term.Valid() || a.Check() != nil {
					t.Errorf("the leader suffered: %v, %v", term.Err(), a.Check())
				}
			})
		})
	}
}

// Regression: the round ended with the majority's yes, without the answer of the node that
// shows the other candidate, and two terms were valid at once.
func TestRefusesToLeadUnderAnotherNumberOfNodes(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		one := c.Client("old", 0)
		defer one.Close()
		q, err := elector.NewQuorum(one)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { q.Close() })
		a := makeCandidate(t, q, "a").Begin(nil)
		term := a.Elected(3 * shortLease)
		time.Sleep(shortLease)
		// The new deploy counts three nodes; two of them are free, a majority.
		b := c.Start("b")
		defer never2(t, a, b)()
		b.Quiet(10 * shortLease)
		err = b.Check()
		if err == nil || !strings.Contains(err.Error(), "a holds the lock and counts 1 Redis nodes, this candidate 3") {
			t.Errorf("Check: %v", err)
		}
		if !term.Valid() {
			t.Errorf("the leader suffered: %v", term.Err())
		}
		// When the old ones are gone, the new ones may.
		a.Shutdown()
		b.Elected(3 * shortLease)
	})
}
