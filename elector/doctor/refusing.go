package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/mandate-dev/mandate/elector"
)

// Refusal is a node that answers requests of candidates with an error. It may grant the same to another Redis
// user, or refuse renewals only, so that nothing but the candidates' answers shows it.
type Refusal struct {
	Node   string   // as the candidates name it
	Who    []string // the ids of those that it refuses, the leader first
	Answer string   // to the first of them
	Remedy string   // what to do about it
}

func (r Refusal) String() string {
	return fmt.Sprintf("refuses %s: %s", list(r.Who), strings.TrimRight(r.Answer, "."))
}

// Refusals are the nodes that refuse requests of candidates, by what these answered to a roll call (in the order of
// [elector.Election.Candidates]).
func Refusals(roll []elector.CandidateStatus) (all []Refusal) {
	for _, c := range roll {
		for _, n := range c.Nodes {
			if n.Refusal == "" {
				continue
			}
			i := slices.IndexFunc(all, func(r Refusal) bool { return r.Node == n.Name })
			if i < 0 {
				i = len(all)
				all = append(all, Refusal{Node: n.Name, Answer: n.Refusal, Remedy: cmp.Or(n.Remedy, remedy(n.Refusal))})
			}
			all[i].Who = append(all[i].Who, c.ID)
		}
	}
	return all
}

// refusals reports what the checks of the nodes can't see, which are made as this command's user: what nodes refuse
// the candidates.
func (e *examination) refusals(roll []elector.CandidateStatus) {
	all := Refusals(roll)
	level := LevelWarn
	if len(e.facts)-len(all) < e.majority {
		level = LevelFail
	}
	for _, r := range all {
		e.add(r.Node, "refuses", level, r.Remedy, "%s", r)
	}
}
