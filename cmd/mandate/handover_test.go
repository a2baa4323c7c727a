package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/mandate-dev/mandate/elector"
)

func TestPlansOfHandovers(t *testing.T) {
	following := func(id string) elector.CandidateStatus {
		return elector.CandidateStatus{ID: id, Incarnation: "i-" + id, Role: elector.RoleFollowing, Healthy: true}
	}
	resting, ill := following("r"), following("u")
	resting.Role = elector.RoleResting
	ill.Healthy, ill.Detail = false, "Redis is out of memory"
	leader := elector.Leader{Candidate: "a", Incarnation: "i-a", Token: 7}
	own := elector.CandidateStatus{ID: "a", Incarnation: "i-a", Role: elector.RoleLeading, Healthy: true}
	for name, c := range map[string]struct {
		to       string // empty: a step-down
		roll     []elector.CandidateStatus
		question string
		err      error
		says     string
	}{
		"others can lead":         {"", []elector.CandidateStatus{own, ill, following("b"), following("c")}, "Make a step down from e? Then one of these leads: b, c.", nil, ""},
		"none":                    {"", []elector.CandidateStatus{own}, "", elector.ErrRefused, "there is no other candidate"},
		"none able":               {"", []elector.CandidateStatus{own, ill, resting}, "", elector.ErrRefused, "u is unhealthy: Redis is out of memory, r is resting"},
		"transfer":                {"b", []elector.CandidateStatus{own, following("b")}, "Hand e over from a to b?", nil, ""},
		"transfer to the leader":  {"a", []elector.CandidateStatus{own, following("b")}, "", errLeadsAlready, ""},
		"the leader's silence":    {"a", nil, "", errLeadsAlready, ""},
		"transfer to its twin":    {"a", []elector.CandidateStatus{own, {ID: "a", Incarnation: "other", Role: elector.RoleFollowing, Healthy: true}}, "Hand e over from a to a?", nil, ""},
		"the library will refuse": {"u", []elector.CandidateStatus{own, ill}, "", nil, ""},
	} {
		plan := func() (string, error) { return planStepDown("e", leader, c.roll, ", or use --force") }
		if c.to != "" {
			plan = func() (string, error) { return planTransfer("e", c.to, leader, c.roll) }
		}
		question, err := plan()
		var exit *exitError
		if errors.As(err, &exit) && exit.code == exitRefused {
			err = errors.Join(err, elector.ErrRefused)
		}
		if question != c.question || !errors.Is(err, c.err) || c.says != "" && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %q, %v", name, question, err)
		}
	}
}
