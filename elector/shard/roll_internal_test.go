package shard

import (
	"slices"
	"testing"

	"github.com/mandate-dev/mandate/elector/internal/group"
)

// A member counts where a majority of the nodes knows it: on one node alone it may be forged, or
// be cut off from the others, where it could hold no lock.
func TestRoll(t *testing.T) {
	m := func(id, incarnation string, seq uint64) group.Member {
		return group.Member{ID: id, Incarnation: incarnation, Seq: seq}
	}
	for _, c := range []struct {
		name   string
		byNode [][]group.Member
		want   []group.Member
	}{
		{"none", [][]group.Member{nil, nil, nil}, nil},
		{"on all nodes", [][]group.Member{{m("a", "1", 1)}, {m("a", "1", 1)}, {m("a", "1", 1)}}, []group.Member{m("a", "1", 1)}},
		{"on a majority", [][]group.Member{{m("a", "1", 1)}, nil, {m("a", "1", 1)}}, []group.Member{m("a", "1", 1)}},
		{"on a minority", [][]group.Member{{m("a", "1", 1)}, nil, nil}, nil},
		{"two incarnations on one node each", [][]group.Member{{m("a", "1", 1)}, {m("a", "2", 1)}, nil}, nil},
		{"the newest record", [][]group.Member{{m("a", "1", 7)}, {m("a", "1", 9)}, {m("a", "1", 8)}}, []group.Member{m("a", "1", 9)}},
		{"in order", [][]group.Member{
			{m("b", "2", 1), m("a", "3", 1), m("a", "1", 1)},
			{m("a", "1", 1), m("b", "2", 1), m("a", "3", 1)},
			nil,
		}, []group.Member{m("a", "1", 1), m("a", "3", 1), m("b", "2", 1)}},
	} {
		r := newRoll()
		for _, members := range c.byNode {
			r.add(members)
		}
		same := func(x, y group.Member) bool {
			return x.ID == y.ID && x.Incarnation == y.Incarnation && x.Seq == y.Seq
		}
		if got := r.members(2); !slices.EqualFunc(got, c.want, same) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
