package main

import (
	"strings"
	"testing"

	"github.com/mandate-dev/mandate/elector"
)

// Regression: a leader by another list of nodes was "an election may be under way", for as long
// as it led.
func TestStatusNamesALeaderByOtherNodes(t *testing.T) {
	here := []elector.NodeStatus{{Node: "r1:6379", Reachable: true}, {Node: "r2:6379", Reachable: true}, {Node: "r3:6379", Reachable: true}}
	for nodes, want := range map[string]string{
		"r3:6379":                 "a leads, but not by the 3 nodes given here: it votes with r3:6379",
		"r3:6379 r4:6379 r5:6379": "a leads, but not by the 3 nodes given here: it votes with r3:6379, r4:6379, r5:6379",
		"r3:6379 r1:6379 r2:6379": "candidates are there: an election may be under way", // it has just been elected
	} {
		c := elector.CandidateStatus{Healthy: true}
		c.ID, c.Role = "a", elector.RoleLeading
		for _, name := range strings.Fields(nodes) {
			c.Nodes = append(c.Nodes, elector.VotingNode{Name: name})
		}
		r := report{Status: elector.Status{Election: "e", Nodes: here}, roll: []elector.CandidateStatus{c}}
		if got, next := r.problem(); got != want || strings.HasPrefix(next, "mandate doctor e") != (len(c.Nodes) != 3 || strings.Contains(nodes, "r4")) {
			t.Errorf("%s: %q, %q", nodes, got, next)
		}
	}
}
