package elector_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/health"
)

func TestCandidatesAnswerTheRollCall(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		_, term := leading(c, "a", func(cfg *elector.Config) {
			cfg.Advertise, cfg.Version, cfg.Succession, cfg.Priority = "10.0.0.1:80", "v7", elector.SuccessionPriority, 3
		})
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

// A node that one candidate cannot reach, and an operator can, shows in that candidate's answer alone.
func TestRollCallShowsWhichNodeACandidateMisses(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		leading(c, "a", func(cfg *elector.Config) { cfg.Probe = health.Func(func(context.Context) error { return nil }) })
		c.Start("b")
		time.Sleep(shortLease)
		c.Nodes[2].Set(cut, "a")
		time.Sleep(12 * time.Second)
		all, err := electionOf(c.Quorum("operator"), "orders").Candidates(t.Context())
		if err != nil || len(all) != 2 || len(all[0].Nodes) != 3 {
			t.Fatalf("%+v, %v", all, err)
		}
		if d := all[0].Nodes[2].SilentFor; d < 9*time.Second || d > 12*time.Second || all[0].Nodes[1].SilentFor != 0 || all[1].Nodes[2].SilentFor != 0 {
			t.Errorf("a has not reached it for %v: %+v", d, all)
		}
		if len(all[0].Probes) != 1 || all[0].Probes[0] != "candidate" || len(all[1].Probes) != 0 {
			t.Errorf("probes %v, %v", all[0].Probes, all[1].Probes)
		}
		c.Nodes[2].Heal()
		time.Sleep(shortLease)
		all, _ = electionOf(c.Quorum("operator"), "orders").Candidates(t.Context())
		if all[0].Nodes[2].SilentFor != 0 {
			t.Errorf("after it came back: %v", all[0].Nodes[2].SilentFor)
		}
	})
}

// A candidate that could not be elected must not count as a replacement of the leader.
func TestAbleCandidatesCouldBeElected(t *testing.T) {
	t.Parallel()
	for role, want := range map[string]bool{
		"leading": true, "following": true,
		"stopping": false, "resting": false, "idle": false, "": false,
	} {
		if got := (elector.CandidateStatus{Healthy: true, Role: role}).Able(); got != want {
			t.Errorf("healthy and %q: %v", role, got)
		}
		if (elector.CandidateStatus{Role: role}).Able() {
			t.Errorf("unhealthy and %q: able", role)
		}
	}
}

// Durations are in milliseconds, and nothing is lost on the way back.
func TestJSONDurationsAreMilliseconds(t *testing.T) {
	took := 1234567 * time.Microsecond
	nanoseconds := regexp.MustCompile(`_ns"`)
	for _, v := range []any{
		&elector.Status{Paused: true, PauseLeft: took, Leader: &elector.Leader{Candidate: "a", LeaseLeft: took}, Nodes: []elector.NodeStatus{{LeaseLeft: took, Abstains: took, RTT: took}}},
		&elector.CandidateStatus{ID: "a", RunningFor: took, HealthyFor: took, RestFor: took, Lease: took},
		&elector.Event{Kind: elector.EventReleased, Held: took},
		&elector.TermRecord{Token: 7, Lasted: took, Gap: -took},
		&elector.Event{Kind: elector.EventOverrun, For: took},
		&elector.PauseRecord{By: "ann", For: took},
	} {
		b, err := json.Marshal(v)
		if err != nil || nanoseconds.Match(b) || !regexp.MustCompile(`_ms":-?1234\.567[,}]`).Match(b) {
			t.Errorf("%s, %v", b, err)
		}
		back := reflect.New(reflect.TypeOf(v).Elem()).Interface()
		if err := json.Unmarshal(b, back); err != nil || !reflect.DeepEqual(back, v) {
			t.Errorf("%s became %+v, %v", b, back, err)
		}
	}
}
