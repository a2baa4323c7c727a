package elector_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/health"
)

func TestCandidatesAnswerTheRollCall(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a := c.Start("a", func(cfg *elector.Config) { cfg.Advertise, cfg.Version, cfg.Priority = "10.0.0.1:80", "v7", 3 })
		term := a.Elected(3 * shortLease)
		c.Start("b", func(cfg *elector.Config) {
			cfg.Probe = health.Func(func(context.Context) error { return errors.New("disk full") })
		})
		time.Sleep(shortLease)
		began := time.Now()
		all, err := electionOf(c.Quorum("operator"), "orders").Candidates(t.Context())
		if err != nil || len(all) != 2 {
			t.Fatalf("%+v, %v", all, err)
		}
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("took %v although all have answered", took)
		}
		if x := all[0]; x.ID != "a" || x.Role != "leading" || x.Token != term.Token() || !x.Healthy || x.Advertise != "10.0.0.1:80" ||
			x.Version != "v7" || x.Priority != 3 || x.RunningFor < shortLease || x.HealthyFor <= 0 || x.Incarnation == "" {
			t.Errorf("%+v", x)
		}
		if x := all[1]; x.ID != "b" || x.Role != "following" || x.Healthy || !strings.Contains(x.Detail, "disk full") || x.Token != 0 {
			t.Errorf("%+v", x)
		}
		none, err := electionOf(c.Quorum("other"), "unknown").Candidates(t.Context())
		if err != nil || len(none) != 0 {
			t.Errorf("of an unknown election: %+v, %v", none, err)
		}
	})
}

func TestRollCallContinuesWithoutAHungCandidateOrNode(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		_, _, op := trio(t, c)
		c.Each(fault{LoseMessages: true}, "b")
		c.Nodes[0].Set(frozen, "")
		c.Nodes[0].Set(frozen, "operator")
		began := time.Now()
		all, err := electionOf(op, "orders").Candidates(t.Context())
		if err != nil || len(all) != 2 || all[0].ID != "a" || all[1].ID != "c" {
			t.Errorf("%+v, %v", all, err)
		}
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

// An operator whom a majority of the nodes can't pass on is told so: an empty roll call
// would say that nobody is there.
func TestRollCallNeedsAMajority(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		_, _, op := trio(t, c)
		c.Nodes[0].Set(down, "operator")
		if all, err := electionOf(op, "orders").Candidates(t.Context()); err != nil || len(all) != 3 {
			t.Errorf("one node down: %+v, %v", all, err)
		}
		c.Nodes[1].Set(down, "operator")
		if _, err := electionOf(op, "orders").Candidates(t.Context()); !errors.Is(err, elector.ErrUnreachable) {
			t.Errorf("two nodes down: %v", err)
		}
	})
}

// Regression: a candidate whose probe fails with a long error was missing in the roll call.
func TestLongErrorOfAProbeHidesNoCandidate(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		a := c.Start("a")
		a.Elected(3 * shortLease)
		c.Start("b", func(cfg *elector.Config) {
			cfg.Probe = health.Func(func(context.Context) error { return errors.New(strings.Repeat("ü", 10_000)) })
		}).Quiet(shortLease)
		all, err := electionOf(c.Quorum("operator"), "orders").Candidates(t.Context())
		if err != nil || len(all) != 2 || all[1].Healthy || !strings.Contains(all[1].Detail, "üü") || len(all[1].Detail) > 1000 {
			t.Errorf("%d candidates, %v", len(all), err)
		}
	})
}

// Regression: two candidates of one process share a subscription, so the roll call ended
// with the first answer of the two.
func TestRollCallOfTwoCandidatesInOneProcess(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		q := c.Quorum("one process")
		makeCandidate(t, q, "a").Begin(nil).Elected(3 * shortLease)
		makeCandidate(t, q, "b").Begin(nil).Quiet(shortLease)
		for range 20 {
			if all, err := electionOf(c.Quorum("operator"), "orders").Candidates(t.Context()); err != nil || len(all) != 2 {
				t.Fatalf("%+v, %v", all, err)
			}
		}
	})
}

// The roll tells why a candidate rests and until when, and which process it is.
func TestRollCallReportsWhyACandidateRests(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		a := c.Start("a", func(cfg *elector.Config) { cfg.Cooldown = time.Minute })
		a.Elected(3 * shortLease)
		op := electionOf(c.Quorum("operator"), "orders").As("ann")
		b := c.Start("b")
		b.Quiet(shortLease)
		if _, err := op.StepDown(t.Context(), "kernel update"); err != nil {
			t.Fatal(err)
		}
		all, err := op.Candidates(t.Context())
		if err != nil || len(all) != 2 {
			t.Fatalf("%+v, %v", all, err)
		}
		leads, rests := all[0], all[1]
		if rests.ID != "a" || rests.Role != elector.RoleResting || rests.RestFor <= 0 || rests.RestFor > time.Minute || rests.RestReason != "resigned: requested by ann: kernel update" || rests.PID != os.Getpid() {
			t.Errorf("%+v", rests)
		}
		if leads.ID != "b" || leads.RestReason != "" || leads.RestFor != 0 || leads.PID != os.Getpid() {
			t.Errorf("%+v", leads)
		}
	})
}

// A candidate that could not be elected must not count as a replacement of the leader.
func TestAbleCandidatesCouldBeElected(t *testing.T) {
	t.Parallel()
	for role, want := range map[elector.Role]bool{
		elector.RoleLeading: true, elector.RoleFollowing: true,
		elector.RoleStopping: false, elector.RoleResting: false, elector.RoleIdle: false, "": false,
	} {
		if got := (elector.CandidateStatus{Healthy: true, Role: role}).Able(); got != want {
			t.Errorf("healthy and %q: %v", role, got)
		}
		if (elector.CandidateStatus{Role: role}).Able() {
			t.Errorf("unhealthy and %q: able", role)
		}
	}
}
