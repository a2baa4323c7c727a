package shard

import (
	"cmp"
	"slices"

	"github.com/mandate-dev/mandate/elector/internal/group"
)

// roll merges the lists of members that several nodes keep.
type roll struct {
	newest map[string]group.Member // by incarnation: the newest record
	nodes  map[string]int          // by incarnation: how many nodes list it as alive
}

func newRoll() roll { return roll{newest: map[string]group.Member{}, nodes: map[string]int{}} }

// add merges the list of one node.
func (r roll) add(members []group.Member) {
	for _, m := range members {
		r.nodes[m.Incarnation]++
		if old, known := r.newest[m.Incarnation]; !known || m.Seq > old.Seq {
			r.newest[m.Incarnation] = m
		}
	}
}

// members returns the members that a majority of the nodes lists, sorted by id. A member that reaches
// fewer nodes can't hold a lock.
func (r roll) members(majority int) (all []group.Member) {
	for incarnation, m := range r.newest {
		if r.nodes[incarnation] >= majority {
			all = append(all, m)
		}
	}
	slices.SortFunc(all, func(x, y group.Member) int {
		return cmp.Or(cmp.Compare(x.ID, y.ID), cmp.Compare(x.Incarnation, y.Incarnation))
	})
	return all
}
