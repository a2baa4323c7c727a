package elector

import (
	"slices"

	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// VotingNode is a Redis node in a candidate's list.
type VotingNode struct {
	Name string `json:"name"` // its address, as that candidate knows it
	// Identity is the word that the node keeps for the election: two candidates may know
	// one node under two names, or two nodes under one. Empty: it has not answered lately.
	Identity string `json:"identity,omitempty"`
}

// SameNodes tells whether both candidates can vote with the same nodes, as far as
// these have told their identities. False means that both could win a majority.
func (c CandidateStatus) SameNodes(other CandidateStatus) bool {
	if len(c.Nodes) == 0 || len(other.Nodes) == 0 {
		return true // it did not say
	}
	return len(c.Nodes) == len(other.Nodes) && !identitiesOf(c.Nodes).Differ(identitiesOf(other.Nodes).Known(), len(c.Nodes))
}

func votingNodes(names []string, ids quorum.Identities) []VotingNode {
	nodes := make([]VotingNode, len(names))
	for i, id := range ids.ByNode(len(names)) {
		nodes[i] = VotingNode{Name: names[i], Identity: id}
	}
	return nodes
}

func identitiesOf(nodes []VotingNode) quorum.Identities {
	ids := make([]string, len(nodes))
	for i, n := range nodes {
		ids[i] = n.Identity
	}
	return quorum.IdentitiesOf(ids)
}

// mostNodes is more than anybody has.
const mostNodes = 15

// tameNodes bounds what a candidate claims.
func tameNodes(nodes []VotingNode) []VotingNode {
	nodes = slices.Clone(nodes[:min(len(nodes), mostNodes)])
	for i, n := range nodes {
		nodes[i] = VotingNode{Name: clip(n.Name, maxName), Identity: clip(n.Identity, 16)}
	}
	return nodes
}
