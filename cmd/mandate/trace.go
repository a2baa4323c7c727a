package main

import (
	"context"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/shard"
)

// statusTimeout keeps status below two seconds, whatever Redis does.
const statusTimeout = 1700 * time.Millisecond

// noTrace is reported of an election that neither the nodes nor a candidate knows.
const noTrace = "no trace of it on these nodes: is the name right?"

// majorityAnswered reports whether the leader is known: a majority of the nodes was read.
func majorityAnswered(st elector.Status) bool {
	reachable := 0
	for _, n := range st.Nodes {
		if n.Reachable {
			reachable++
		}
	}
	return 2*reachable > len(st.Nodes)
}

// traceless reports whether a majority answered, and none knows of any leader, now or
// before, nor of a candidate that has just come: if none answers, either, it is likely that
// the name is wrong.
func traceless(st elector.Status) bool {
	return majorityAnswered(st) && !st.Traced()
}

// unknownElection reports whether an election is traceless, and no candidate answers: those
// that have never been able to lead leave no trace.
func unknownElection(ctx context.Context, el *elector.Election, st elector.Status) bool {
	if !traceless(st) {
		return false
	}
	roll, _ := el.Candidates(ctx) // without it the nodes alone decide
	return len(roll) == 0
}

// namesGroup reports whether there are shards of a group of that name.
func namesGroup(ctx context.Context, q *elector.Quorum, name string) bool {
	names, _ := q.Elections(ctx) // without them the name is unknown
	_, groups := shard.Split(names)
	return groups[name] != nil
}
