package main

import (
	"context"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/shard"
)

// statusTimeout keeps status below two seconds, however Redis behaves.
const statusTimeout = 1700 * time.Millisecond

// noTrace is the error for an election that neither the nodes nor a candidate know.
const noTrace = "no trace of it on these nodes: is the name right?"

// majorityAnswered reports whether a majority of the nodes was read, so that the leader is known.
func majorityAnswered(st elector.Status) bool {
	reachable := 0
	for _, n := range st.Nodes {
		if n.Reachable {
			reachable++
		}
	}
	return 2*reachable > len(st.Nodes)
}

// traceless reports whether a majority answered and no node knows of a leader, now or before, or of
// a candidate that has just started. If no candidate answers either, the name is probably wrong.
func traceless(st elector.Status) bool {
	return majorityAnswered(st) && !st.Traced()
}

// unknownElection reports whether an election is traceless and no candidate answers. Candidates
// that have never been able to lead leave no trace on the nodes, but do answer.
func unknownElection(ctx context.Context, el *elector.Election, st elector.Status) bool {
	if !traceless(st) {
		return false
	}
	roll, _ := el.Candidates(ctx) // without a roll the nodes alone decide
	return len(roll) == 0
}

// namesGroup reports whether there are shards of a group of this name.
func namesGroup(ctx context.Context, q *elector.Quorum, name string) bool {
	names, _ := q.Elections(ctx) // without the names the group is unknown
	_, groups := shard.Split(names)
	return groups[name] != nil
}
