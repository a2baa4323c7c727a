package shard

import (
	"cmp"
	"slices"

	"github.com/mandate-dev/mandate/elector/internal/group"
)

// roll merges what several nodes know of the members.
type roll struct {
	newest map[string]group.Member // by incarnation: as it described itself last
	nodes  map[string]int          // that know it as alive
}

func newRoll() roll { return roll{newest: map[string]group.Member{}, nodes: map[string]int{}} }

// add takes what one node knows.
func (r roll) add(members []group.Member) {
	for _, m := range members {
		r.nodes[m.Incarnation]++
		if old, known := r.newest[m.Incarnation]; !known || m.Seq > old.Seq {
			r.newest[m.Incarnation] = m
		}
	}
}

// members are those that a majority knows, by id: who reaches fewer nodes can hold no lock.
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
