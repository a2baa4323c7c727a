package main

import (
	"strings"
	"testing"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
)

// A node that refuses one candidate is named where that candidate stands, unless its reason does so.
func TestCandidateTableNamesNodesThatRefuse(t *testing.T) {
	refuses := []elector.VotingNode{{Name: "n1"}, {Name: "n2", Refusal: "ERR 'pexpire'", Remedy: "ACL SETUSER w +pexpire"}}
	all := []elector.CandidateStatus{
		{ID: "a", Role: "leading", Healthy: true, Nodes: refuses},
		{ID: "b", Role: "following", Unable: true, Detail: "n2: ERR 'pexpire' (no right)", Nodes: refuses},
	}
	if text := strings.Join((&output.Printer{}).Table(candidateTable(all, nil)), "\n"); strings.Count(text, "n2 refuses it: ERR 'pexpire' -> ACL SETUSER w +pexpire") != 1 || strings.Contains(text, "n1 refuses") {
		t.Error(text)
	}
}
