package elector

import (
	"errors"
	"strings"
	"testing"
)

// To whom an operator may hand over: one living candidate of that name that could lead.
// To anybody else a leader would step down for nothing.
func TestEligible(t *testing.T) {
	c := func(id string, r string, healthy bool) CandidateStatus {
		return CandidateStatus{ID: id, Incarnation: id + "1", Role: r, Healthy: healthy, Detail: "disk full"}
	}
	twin := c("b", roleFollowing, true)
	twin.Incarnation = "b2"
	for name, x := range map[string]struct {
		all  []CandidateStatus
		want string // of the error; "": none
	}{
		"it follows":                 {all: []CandidateStatus{c("a", roleLeading, true), c("b", roleFollowing, true)}},
		"it leads":                   {all: []CandidateStatus{c("b", roleLeading, true)}, want: "is already the leader"},
		"it leads, and is unhealthy": {all: []CandidateStatus{c("b", roleLeading, false)}, want: "is already the leader"},
		"it is unhealthy":            {all: []CandidateStatus{c("b", roleFollowing, false)}, want: "disk full"},
		"it rests":                   {all: []CandidateStatus{c("b", roleResting, true)}, want: "resting"},
		"it stops":                   {all: []CandidateStatus{c("b", roleStopping, true)}, want: "stopping"},
		"there is none":              {all: []CandidateStatus{c("a", roleLeading, true), c("c", roleFollowing, true)}, want: "there are: a, c"},
		"there is nobody":            {want: "no candidate answers"},
		"there are two":              {all: []CandidateStatus{c("b", roleFollowing, true), twin}, want: "give each its own id"},
	} {
		got, err := eligible(x.all, "b")
		switch {
		case x.want == "" && (err != nil || got.Incarnation != "b1"):
			t.Errorf("%s: %+v, %v", name, got, err)
		case x.want != "" && (!errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), x.want)):
			t.Errorf("%s: %v, want %q", name, err, x.want)
		}
	}
}
