// Package plan computes which member of a group should own which shard. It is pure: the
// same input gives the same plan on every machine, so that two assigners at one time
// agree. Only balance depends on a plan.
package plan

import (
	"cmp"
	"hash/fnv"
	"io"
	"slices"
)

// NoMember is the index of no member.
const NoMember = -1

// Member is a member of the group.
type Member struct {
	ID     string
	Weight float64 // how many shards it should own, relative to the other members; above zero
	Closed bool    // it keeps no shards and is given none: stopping, unhealthy or cut off
	Unable []int   // shards that it can't serve for now
}

// Input is what a plan is made from.
type Input struct {
	Members []Member
	Shards  int
	Owner   []int // by shard: the member that owns it, or NoMember
	Planned []int // by shard: the member of the last plan, or NoMember
	// Guest is by shard: true if the shard is planned for its member only because the former
	// member has gone. A member that joins is given guests first, so that in a rolling restart
	// each shard moves at most twice.
	Guest []bool
}

// Plan assigns shards to members.
type Plan struct {
	Target []int  // by shard: the member that should own it, or NoMember when none can
	Guest  []bool // the Input.Guest of the next plan
}

// Make makes a plan.
//
// A shard stays with the member that it is planned for, or else with its owner, if that member
// can serve it. The other shards go to the members with the fewest, by weight. Then single shards
// move from a member with too many to one with too few, as long as each move makes them more even
// (the sum of shards²/weight falls, so this ends). This is the smallest number of moves.
func Make(in Input) Plan {
	p := newPlanner(in)
	var left []int
	for s := range in.Shards {
		switch {
		case p.serves(at(in.Planned, s), s):
			p.give(s, in.Planned[s])
		case p.serves(at(in.Owner, s), s):
			p.give(s, in.Owner[s])
		default:
			left = append(left, s)
		}
	}
	for _, s := range left {
		p.give(s, p.emptiest(s))
		p.Guest[s] = len(in.Planned) > 0 // without a plan before, the shard has no former member
	}
	for range 4*in.Shards + 64 { // more than the moves that there can be, but for rounding errors
		if !p.moveOne() {
			break
		}
	}
	return p.Plan
}

// Limit returns the part of a plan that may be carried out now: at most budget shards leave
// their owners at one time. Moves that the plan in force (Input.Planned) has begun continue, and
// use up the budget first.
func Limit(p Plan, in Input, budget int) Plan {
	target, owner, published := p.Target, in.Owner, in.Planned
	now, guest := slices.Clone(target), slices.Clone(p.Guest)
	moves := func(s int) bool { return owner[s] != NoMember && target[s] != NoMember && owner[s] != target[s] }
	for s := range target {
		if moves(s) && at(published, s) == target[s] {
			budget--
		}
	}
	for s := range target {
		if !moves(s) || at(published, s) == target[s] {
			continue
		}
		if budget--; budget < 0 {
			now[s], guest[s] = owner[s], in.guest(s)
		}
	}
	return Plan{Target: now, Guest: guest}
}

func (in Input) guest(s int) bool { return s < len(in.Guest) && in.Guest[s] }

func at(list []int, i int) int {
	if i < len(list) {
		return list[i]
	}
	return NoMember
}

// planner is a plan in the making.
type planner struct {
	Plan

	in     Input
	unable []map[int]bool // by member
	shards [][]int        // by member: what is planned for it
}

func newPlanner(in Input) *planner {
	p := &planner{in: in, shards: make([][]int, len(in.Members))}
	for s := range in.Shards {
		p.Target = append(p.Target, NoMember)
		p.Guest = append(p.Guest, in.guest(s))
	}
	for _, m := range in.Members {
		no := make(map[int]bool, len(m.Unable))
		for _, s := range m.Unable {
			no[s] = true
		}
		p.unable = append(p.unable, no)
	}
	return p
}

// serves reports whether a shard can be planned for a member.
func (p *planner) serves(m, s int) bool {
	return m >= 0 && m < len(p.in.Members) && !p.in.Members[m].Closed && !p.unable[m][s]
}

func (p *planner) give(s, m int) {
	p.Target[s] = m
	if m != NoMember {
		p.shards[m] = append(p.shards[m], s)
	}
}

// emptiest returns the member with the fewest shards for its weight, of those that can serve this
// one, or NoMember.
func (p *planner) emptiest(s int) int {
	best, fill := NoMember, 0.0
	for m := range p.in.Members {
		if !p.serves(m, s) {
			continue
		}
		f := float64(len(p.shards[m])+1) / p.in.Members[m].Weight // infinite, where a weight is next to nothing
		if best == NoMember || f < fill || f == fill && p.tie(s, m) > p.tie(s, best) {
			best, fill = m, f
		}
	}
	return best
}

// tie decides between equal members. It is a hash, so that the shards of a member that has gone spread
// over all others instead of going to the first one of the list.
func (p *planner) tie(s, m int) uint64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, p.in.Members[m].ID)
	_, _ = h.Write([]byte{byte(s), byte(s >> 8), byte(s >> 16), byte(s >> 24)})
	return h.Sum64()
}

// moveOne moves a shard from the fullest member to the emptiest one that can take it, if that makes
// the shards more even.
func (p *planner) moveOne() bool {
	members := p.byFill()
	for _, from := range members {
		for _, to := range slices.Backward(members) {
			if p.fill(from) <= p.fill(to) {
				break
			}
			if !p.evens(from, to) {
				continue
			}
			if s := p.movable(from, to); s != NoMember {
				p.shards[from] = slices.DeleteFunc(p.shards[from], func(x int) bool { return x == s })
				p.give(s, to)
				p.Guest[s] = false
				return true
			}
		}
	}
	return false
}

// byFill returns the members that can be given shards, the fullest first.
func (p *planner) byFill() []int {
	var all []int
	for m, member := range p.in.Members {
		if !member.Closed {
			all = append(all, m)
		}
	}
	slices.SortFunc(all, func(a, b int) int {
		return cmp.Or(cmp.Compare(p.fill(b), p.fill(a)), cmp.Compare(p.in.Members[a].ID, p.in.Members[b].ID))
	})
	return all
}

// fill returns the number of a member's shards relative to its weight.
func (p *planner) fill(m int) float64 { return float64(len(p.shards[m])) / p.in.Members[m].Weight }

// evens reports whether a move lowers the sum of shards²/weight.
func (p *planner) evens(from, to int) bool {
	a, b := float64(len(p.shards[from])), float64(len(p.shards[to]))
	return (2*a-1)/p.in.Members[from].Weight > (2*b+1)/p.in.Members[to].Weight*(1+1e-9)
}

// movable returns the shard that can move at the lowest cost, or NoMember: a guest, or else one that
// from does not own yet.
func (p *planner) movable(from, to int) int {
	best, rank := NoMember, -1
	for _, s := range p.shards[from] {
		r := 0
		if p.Guest[s] {
			r += 2
		}
		if at(p.in.Owner, s) != from {
			r++
		}
		if r > rank && p.serves(to, s) {
			best, rank = s, r
		}
	}
	return best
}
