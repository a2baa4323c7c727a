package main

import (
	"slices"
	"strings"

	"github.com/mandate-dev/mandate/elector"
)

// leadsElsewhere is a candidate that leads although these nodes know no leader: it was given a
// list of other nodes, or this command was.
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

// votes are the names of the nodes that a candidate votes with.
func votes(nodes []elector.VotingNode) string {
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = n.Name
	}
	return strings.Join(names, ", ")
}
