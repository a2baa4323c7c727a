package elector

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// To whom an operator may hand over: one living candidate of that name that could lead.
// To anybody else a leader would step down for nothing.
func TestEligible(t *testing.T) {
	c := func(id string, r Role, healthy bool) CandidateStatus {
		return CandidateStatus{ID: id, Incarnation: id + "1", Role: r, Healthy: healthy, Detail: "disk full"}
	}
	twin := c("b", RoleFollowing, true)
	twin.Incarnation = "b2"
	for name, x := range map[string]struct {
		all  []CandidateStatus
		want string // of the error; "": none
	}{
		"it follows":                 {all: []CandidateStatus{c("a", RoleLeading, true), c("b", RoleFollowing, true)}},
		"it leads":                   {all: []CandidateStatus{c("b", RoleLeading, true)}, want: "is already the leader"},
		"it leads, and is unhealthy": {all: []CandidateStatus{c("b", RoleLeading, false)}, want: "is already the leader"},
		"it is unhealthy":            {all: []CandidateStatus{c("b", RoleFollowing, false)}, want: "disk full"},
		"it rests":                   {all: []CandidateStatus{c("b", RoleResting, true)}, want: "resting"},
		"it stops":                   {all: []CandidateStatus{c("b", RoleStopping, true)}, want: "stopping"},
		"there is none":              {all: []CandidateStatus{c("a", RoleLeading, true), c("c", RoleFollowing, true)}, want: "there are: a, c"},
		"there is nobody":            {want: "no candidate answers"},
		"there are two":              {all: []CandidateStatus{c("b", RoleFollowing, true), twin}, want: "give each its own id"},
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

// What an operator gave is written on a majority of the nodes or was not done.
func TestEnoughNodesDidIt(t *testing.T) {
	e := offline(t, 3)
	no := errors.New("refused")
	for _, c := range []struct {
		errs        []error
		ok, unmajor bool
	}{
		{[]error{nil, nil, nil}, true, false},
		{[]error{no, nil, nil}, false, false},
		{[]error{no, nil, no}, false, true},
		{[]error{no, no, no}, false, true},
	} {
		if err := partialFailure(e.nodes, c.errs); (err == nil) != c.ok || errors.Is(err, ErrUnreachable) != c.unmajor || !c.ok && !errors.Is(err, no) {
			t.Errorf("%v: %v", c.errs, err)
		}
	}
}

// What can't be asked is refused before anything is sent.
func TestOrdersThatCantBeGiven(t *testing.T) {
	q := offlineQuorum(t, 1)
	long, most := strings.Repeat("x", protocol.MaxReason+1), strings.Repeat("x", protocol.MaxReason)
	if checkReason(most) != nil || checkReason(long) == nil {
		t.Errorf("of %d bytes: %v; of one more: %v", protocol.MaxReason, checkReason(most), checkReason(long))
	}
	orders, err := q.Election("orders")
	if err != nil {
		t.Fatal(err)
	}
	_, err1 := q.Namespace("a b").Election("orders")
	_, err2 := q.Election("or{ders")
	_, err3 := q.Election("")
	_, err4 := q.Namespace("a{").Elections(t.Context())
	_, err5 := orders.StepDown(t.Context(), long)
	for i, err := range []error{
		orders.Pause(t.Context(), -1, ""), orders.Pause(t.Context(), time.Millisecond-1, ""), orders.Pause(t.Context(), 0, long),
		err1, err2, err3, err4, err5,
	} {
		if err == nil || errors.Is(err, ErrUnreachable) {
			t.Errorf("%d: %v", i, err)
		}
	}
}
