package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/mandate-dev/mandate/elector"
)

// nodeRefusal is a node that answers requests of candidates with an error. The node may accept the same
// requests from another Redis user, or refuse renewals only, so only the candidates' answers show it.
type nodeRefusal struct {
	Node   string   // as the candidates name it
	Who    []string // the ids of the candidates that it refuses, the leader first
	Answer string   // the node's error, as answered to the first of them
	Remedy string   // what to do about it
}

func (r nodeRefusal) String() string {
	return fmt.Sprintf("refuses %s: %s", list(r.Who), strings.TrimRight(r.Answer, "."))
}

// refusalsOf returns the nodes that refuse requests of candidates, according to the candidates' answers
// to a roll call (in the order of [elector.Election.Candidates]).
func refusalsOf(roll []elector.CandidateStatus) (all []nodeRefusal) {
	for _, c := range roll {
		for _, n := range c.Nodes {
			if n.Refusal == "" {
				continue
			}
			i := slices.IndexFunc(all, func(r nodeRefusal) bool { return r.Node == n.Name })
			if i < 0 {
				i = len(all)
				all = append(all, nodeRefusal{Node: n.Name, Answer: n.Refusal, Remedy: cmp.Or(n.Remedy, remedy(n.Refusal))})
			}
			all[i].Who = append(all[i].Who, c.ID)
		}
	}
	return all
}

// refusals reports which nodes refuse requests of the candidates. The checks of the nodes can't see
// that, because they are made as this command's Redis user.
func (e *examination) refusals(r *Report) {
	all := refusalsOf(r.Candidates)
	level := LevelWarn
	if 2*(len(r.Status.Nodes)-len(all)) <= len(r.Status.Nodes) {
		level = LevelFail
	}
	for _, refusal := range all {
		e.add(refusal.Node, "refuses", level, refusal.Remedy, "%s", refusal)
	}
}
