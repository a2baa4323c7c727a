package main

import (
	"errors"
	"testing"

	"github.com/mandate-dev/mandate/elector"
)

func TestPlansOfHandovers(t *testing.T) {
	following := func(id string) elector.CandidateStatus {
		return elector.CandidateStatus{ID: id, Incarnation: "i-" + id, Role: elector.RoleFollowing, Healthy: true}
	}
	resting, unhealthy := following("r"), following("u")
	resting.Role = elector.RoleResting
	unhealthy.Healthy, unhealthy.Detail = false, "Redis is out of memory"
	leader := elector.Leader{Candidate: "a", Incarnation: "i-a", Token: 7}
	own := elector.CandidateStatus{ID: "a", Incarnation: "i-a", Role: elector.RoleLeading, Healthy: true}
	for name, c := range map[string]struct {
		to       string
		roll     []elector.CandidateStatus
		question string
		err      error
	}{
		"to another":             {"b", []elector.CandidateStatus{own, following("b")}, "Hand e over from a to b?", nil},
		"to the leader":          {"a", []elector.CandidateStatus{own, following("b")}, "", errLeadsAlready},
		"an unresponsive leader": {"a", nil, "", errLeadsAlready},
		"to its twin":            {"a", []elector.CandidateStatus{own, {ID: "a", Incarnation: "other", Role: elector.RoleFollowing, Healthy: true}}, "Hand e over from a to a?", nil},
		"to one that is unable":  {"u", []elector.CandidateStatus{own, unhealthy}, "", nil},
		"to one that is resting": {"r", []elector.CandidateStatus{own, resting}, "", nil},
	} {
		able, _ := leader.SuccessorsIn(c.roll)
		if question, err := planTransfer("e", c.to, leader, able); question != c.question || !errors.Is(err, c.err) {
			t.Errorf("%s: %q, %v", name, question, err)
		}
	}
	able, err := leader.SuccessorsIn([]elector.CandidateStatus{own, unhealthy, following("b"), following("c")})
	if question := askStepDown("e", leader, able); err != nil || question != "Make a step down from e? Then one of these leads: b, c." {
		t.Errorf("%q, %v", question, err)
	}
}
