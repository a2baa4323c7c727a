package doctor

import (
	"testing"

	"github.com/mandate-dev/mandate/elector"
)

// The node that refuses is named once, with all whom it refuses, and a majority of such nodes is a failure.
func TestRefusals(t *testing.T) {
	node := func(name, refusal, remedy string) elector.VotingNode {
		return elector.VotingNode{Name: name, Refusal: refusal, Remedy: remedy}
	}
	roll := []elector.CandidateStatus{
		{ID: "a", Nodes: []elector.VotingNode{node("n1", "", ""), node("n2", "ERR 'pexpire'", "ACL SETUSER w +pexpire"), node("n3", "", "")}},
		{ID: "b", Nodes: []elector.VotingNode{node("n1", "", ""), node("n2", "ERR 'set'", "other"), node("n3", "OOM command not allowed", "")}},
	}
	for of, want := range map[int]Level{1: LevelWarn, 2: LevelFail} {
		e := &examination{}
		e.refusals(&Report{Candidates: roll[:of], Status: elector.Status{Nodes: make([]elector.NodeStatus, 3)}})
		if len(e.findings) != of || e.findings[0].Level != want || e.findings[0].Node != "n2" {
			t.Errorf("%d of 3: %+v", of, e.findings)
		}
		if of == 2 && (e.findings[0].Found != "refuses a, b: ERR 'pexpire'" || e.findings[0].Advice != "ACL SETUSER w +pexpire" || e.findings[1].Advice != remedy("OOM ")) {
			t.Errorf("%+v", e.findings)
		}
	}
}
