package elector_test

import (
	"context"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// Regression: Campaign returned a term before IsLeader and Term knew of it.
func TestIsLeaderRightAfterCampaign(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		a := makeCandidate(t, c.Quorum("a"), "a")
		for range 20 {
			term, err := a.Campaign(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			leads, own := a.IsLeader(), a.Term()
			if err := term.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !leads || own != term {
				t.Fatalf("Campaign returned, IsLeader is %v and Term is %v", leads, own)
			}
		}
	})
}

// Regression: an operator who asked for a step-down took the lock away under the running
// work of a campaigned term. Only Term.Close reports that the work has stopped.
func TestStepDownWaitsForTheWorkOfCampaign(t *testing.T) {
	for _, ask := range []string{"operator", "elector"} {
		t.Run(ask, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, c *cluster) {
				a := makeCandidate(t, c.Quorum("a"), "a")
				term, err := a.Campaign(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				b := c.Start("b")
				b.Quiet(shortLease)
				op := c.Quorum("operator")
				go func() {
					if ask == "operator" {
						_, _ = electionOf(op, "orders").StepDown(within(t, time.Minute), "")
					} else {
						_ = a.Resign(within(t, time.Minute))
					}
				}()
				wantReason(t, term, 5*time.Second, elector.ReasonResigned)
				b.Quiet(shortLease / 2) // the work takes so long to stop
				if err := term.Close(context.Background()); err != nil {
					t.Fatal(err)
				}
				b.Elected(time.Second)
			})
		})
	}
}
