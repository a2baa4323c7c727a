package elector_test

import (
	"context"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// An operator who asks the holder of a term of Campaign to step down took the
// lock away under its running work: only Term.Resign says that it has stopped.
func TestStepDownWaitsForTheWorkOfCampaign(t *testing.T) {
	for _, ask := range []string{"operator", "elector"} {
		t.Run(ask, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, c *cluster) {
				a := makeCandidate(t, c.quorum("a"), "a")
				term, err := a.Campaign(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				b := c.start("b")
				b.quiet(shortLease)
				op := c.quorum("operator")
				go func() {
					if ask == "operator" {
						_, _ = electionOf(op, "orders").StepDown(within(t, time.Minute), "")
					} else {
						_ = a.Resign(within(t, time.Minute))
					}
				}()
				wantReason(t, term, 5*time.Second, elector.ReasonResigned)
				b.quiet(shortLease / 2) // the work takes so long to stop
				if err := term.Resign(context.Background()); err != nil {
					t.Fatal(err)
				}
				b.elected(time.Second)
			})
		})
	}
}
