package main

import (
	"slices"
	"strings"

	"github.com/mandate-dev/mandate/elector"
)

// leadsElsewhere returns a candidate that leads on another list of nodes than the one this command
// reads, or nil. Either the candidate or this command was given the wrong list.
func (r *report) leadsElsewhere() *elector.CandidateStatus {
	i := slices.IndexFunc(r.roll, func(c elector.CandidateStatus) bool {
		return c.Role == elector.RoleLeading && len(c.Nodes) > 0 && (len(c.Nodes) != len(r.Nodes) || slices.ContainsFunc(c.Nodes, func(n elector.VotingNode) bool {
			return !slices.ContainsFunc(r.Nodes, func(here elector.NodeStatus) bool { return here.Node == n.Name })
		}))
	})
	if i < 0 {
		return nil
	}
	return &r.roll[i]
}

func votes(nodes []elector.VotingNode) string {
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = n.Name
	}
	return strings.Join(names, ", ")
}
