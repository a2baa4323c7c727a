package elector_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/doctor"
)

const twinWarning = "another process uses the same candidate id"

// Two living processes with one id both say so, whichever leads, and so do the
// roll call and the doctor; a handover to "it" is refused.
func TestTwinsAreReported(t *testing.T) {
	for name, first := range map[string]string{"one leads": "a", "both follow": "c"} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, c *cluster) {
				lead := c.Start(first)
				lead.Elected(3 * shortLease)
				var twins []*candidate
				if first == "a" {
					twins = append(twins, lead)
				}
				for len(twins) < 2 {
					time.Sleep(shortLease / 2)
					twins = append(twins, makeCandidate(t, c.Quorum("twin"), "a").Begin(nil))
				}
				time.Sleep(3 * shortLease)
				for i, twin := range twins {
					if lines := twin.Log.Lines(twinWarning); len(lines) != 1 {
						t.Errorf("twin %d logged it %d times: %q", i, len(lines), lines)
					}
				}
				q := c.Quorum("operator")
				all, err := electionOf(q, "orders").Candidates(t.Context())
				if err != nil || len(all) < 2 {
					t.Fatalf("roll call: %+v, %v", all, err)
				}
				found, err := doctor.Examine(t.Context(), q, doctor.Config{Election: "orders", Lease: shortLease})
				if err != nil || !slices.ContainsFunc(found, func(f doctor.Finding) bool {
					return f.Check == "ids" && f.Level == doctor.LevelWarn && strings.Contains(f.Found, "2 candidates have the id a")
				}) {
					t.Errorf("doctor says %+v, %v", found, err)
				}
				_, err = electionOf(q, "orders").Transfer(t.Context(), "a")
				if !errors.Is(err, elector.ErrRefused) || !strings.Contains(err.Error(), "2 candidates have the id a") {
					t.Errorf("transfer says %v", err)
				}
				if first == "c" {
					if lines := lead.Log.Lines(twinWarning); len(lines) != 0 {
						t.Errorf("the leader has no twin, and says %q", lines)
					}
				}
			})
		})
	}
}

// A process that was killed and comes back under its fixed id has no twin.
func TestRestartUnderAFixedIDIsNoTwin(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		old := c.Start("a")
		old.Elected(3 * shortLease)
		other := c.Start("b")
		time.Sleep(shortLease)
		crash(c, old)
		again := makeCandidate(t, c.Quorum("restarted"), "a").Begin(nil)
		time.Sleep(3 * shortLease)
		for _, x := range []*candidate{again, other} {
			if lines := x.Log.Lines("WARN"); len(lines) != 0 {
				t.Errorf("%s warns: %q", x.ID(), lines)
			}
		}
	})
}
