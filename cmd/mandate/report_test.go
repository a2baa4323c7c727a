package main

import (
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// What is wrong with an election, in the order of what to mend first.
func TestProblemOfAReport(t *testing.T) {
	known := []elector.NodeStatus{{Node: "n", Reachable: true, Fence: 1}}
	leads := &elector.Leader{Candidate: "a", Incarnation: "1", Token: 7, LeaseLeft: 7900 * time.Millisecond}
	follows := elector.CandidateStatus{ID: "b", Incarnation: "2", Healthy: true, Role: elector.RoleFollowing}
	for name, c := range map[string]struct {
		r         report
		why, next string
	}{
		"a leader that hangs": {
			report{Status: elector.Status{Leader: leads, Nodes: known}, silent: true, roll: []elector.CandidateStatus{follows}},
			"the leader a does not answer: it may hang or be dead; replaced in 7.9s unless it renews", "mandate candidates e",
		},
		"the only one": {
			report{Status: elector.Status{Leader: leads, Nodes: known}, silent: true},
			"the leader a does not answer: it may hang or be dead; its lease ends in 7.9s unless it renews, and no candidate could replace it", "mandate candidates e",
		},
		"no roll": {report{Status: elector.Status{Leader: leads, Nodes: known}, rollErr: elector.ErrDenied}, "", ""},
	} {
		c.r.Election = "e"
		if why, next := c.r.problem(); why != c.why || next != c.next {
			t.Errorf("%s: %q, %q\nwant %q, %q", name, why, next, c.why, c.next)
		}
	}
}

// A leader that does not answer stands above those that do, and below elections without one.
func TestTopSortsSilentLeaders(t *testing.T) {
	all := topReports()
	all[2].silent = true
	v := &topView{}
	v.set(all, nil)
	if got := v.all[0].Election + " " + v.all[1].Election; got != "d-vacant c-well" {
		t.Errorf("first come %s", got)
	}
}
