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
	fresh := []elector.NodeStatus{{Node: "n", Reachable: true}}
	abstains := []elector.NodeStatus{{Node: "n", Reachable: true, Abstains: 8500 * time.Millisecond}}
	lost := []elector.NodeStatus{known[0], abstains[0]}
	ill := elector.CandidateStatus{ID: "a", Incarnation: "1", Role: elector.RoleFollowing, Detail: "probe-exec: disk full"}
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
		"no roll":                    {report{Status: elector.Status{Leader: leads, Nodes: known}, rollErr: elector.ErrDenied}, "", ""},
		"unknown to all":             {report{Status: elector.Status{Nodes: fresh}}, "no trace of an election of this name", "mandate ls"},
		"never able to lead":         {report{Status: elector.Status{Nodes: fresh}, roll: []elector.CandidateStatus{ill}}, "no candidate can lead (a: probe-exec: disk full)", "mandate candidates e"},
		"first election":             {report{Status: elector.Status{Nodes: abstains}, roll: []elector.CandidateStatus{follows}}, "first election: nodes vote in 8.5s", "mandate wait e"},
		"first election, no roll":    {report{Status: elector.Status{Nodes: abstains}, rollErr: elector.ErrDenied}, "first election: nodes vote in 8.5s", "mandate wait e"},
		"a node has lost its data":   {report{Status: elector.Status{Nodes: lost}, roll: []elector.CandidateStatus{follows}}, "a node is new or lost its data, and does not vote for another 8.5s", "mandate wait e"},
		"first election, none is up": {report{Status: elector.Status{Nodes: abstains}}, "no candidate answers: none is running, or they use other nodes or another prefix", "mandate history e"},
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
