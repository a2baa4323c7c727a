package group

import (
	"cmp"
	"slices"
)

// NoMember is the index of no member.
const NoMember = -1

// NewPlan computes which member should own which shard. It is pure: the same input gives the same plan
// on every machine, so that two assigners at one time agree. last is the plan in force; without shards: none.
//
// A shard stays with the member that it is planned for, or else with its owner, if that member
// can serve it. The other shards go to the members with the fewest, by weight. Then single shards
// move from a member with too many to one with too few, as long as each move makes them more even
// (the sum of shards²/weight falls, so this ends). This is the smallest number of moves, of which at most
// so many take place at one time.
func NewPlan(members []Member, shards int, last *Plan, moves int) *Plan {
	p := newPlanner(members, shards, last)
	p.assign()
	p.limit(moves)
	return p.plan()
}

// planner is a plan in the making. Members are indexes.
type planner struct {
	members []Member
	first   bool    // there was no plan before
	owner   []int   // by shard: the member that owns it, or NoMember
	planned []int   // by shard: the member of the last plan, or NoMember
	target  []int   // by shard: the member that should own it, or NoMember when none can
	shards  [][]int // by member: what target gives it
	// guest is by shard: it is planned for its member only because the former member has gone. A member
	// that joins is given guests first, so that in a rolling restart each shard moves at most twice.
	guest, wasGuest []bool
}

func newPlanner(members []Member, shards int, last *Plan) *planner {
	p := &planner{
		members: members, first: last.Shards == 0, shards: make([][]int, len(members)),
		owner:  Owners(shards, members),
		target: none(shards), planned: none(shards), wasGuest: make([]bool, shards),
	}
	for i, m := range byShard(shards, last.Members, func(m Assigned) Set { return m.Planned }) {
		if m != NoMember {
			p.planned[i] = slices.IndexFunc(members, func(o Member) bool { return o.Incarnation == last.Members[m].Incarnation })
		}
	}
	for _, s := range last.Guests {
		if s < shards { // in a forged plan there may be others
			p.wasGuest[s] = true
		}
	}
	p.guest = slices.Clone(p.wasGuest)
	return p
}

func (p *planner) assign() {
	var left []int
	for s := range p.target {
		switch {
		case p.serves(p.planned[s], s):
			p.give(s, p.planned[s])
		case p.serves(p.owner[s], s):
			p.give(s, p.owner[s])
		default:
			left = append(left, s)
		}
	}
	for _, s := range left {
		p.give(s, p.emptiest(s))
		p.guest[s] = !p.first
	}
	for range 4*len(p.target) + 64 { // more than the moves that there can be, but for rounding errors
		if !p.moveOne() {
			break
		}
	}
}

// limit leaves shards with their owners so that at most so many move at one time. Moves that the last
// plan has begun continue, and count first.
func (p *planner) limit(moves int) {
	var begin []int
	for s, to := range p.target {
		switch {
		case p.owner[s] == NoMember || to == NoMember || to == p.owner[s]:
		case p.planned[s] == to:
			moves--
		default:
			begin = append(begin, s)
		}
	}
	for _, s := range begin[min(max(0, moves), len(begin)):] {
		p.target[s], p.guest[s] = p.owner[s], p.wasGuest[s]
	}
}

func (p *planner) plan() *Plan {
	made := &Plan{Shards: len(p.target)}
	for _, m := range p.members {
		m.Version, m.Host, m.PID, m.Seq = "", "", 0, 0 // no plan needs them
		if m.Closed != "" {
			m.Closed = "closed" // the reason may change with every probe
		}
		made.Members = append(made.Members, Assigned{Member: m})
	}
	for s, m := range p.target {
		if p.guest[s] {
			made.Guests = append(made.Guests, s)
		}
		if m != NoMember {
			made.Members[m].Planned = append(made.Members[m].Planned, s)
		}
	}
	return made
}

// Owners returns, for each shard, the index of the member that reports to own it, or NoMember.
func Owners(shards int, members []Member) []int {
	return byShard(shards, members, func(m Member) Set { return m.Owned })
}

// byShard returns for each shard the index of the member in whose set it is, or NoMember.
func byShard[M any](shards int, members []M, set func(M) Set) []int {
	all := none(shards)
	for i, m := range members {
		for _, s := range set(m) {
			if s < shards {
				all[s] = i
			}
		}
	}
	return all
}

func none(shards int) []int { return slices.Repeat([]int{NoMember}, shards) }

// serves reports whether a shard can be planned for a member.
func (p *planner) serves(m, s int) bool {
	return m != NoMember && p.members[m].Closed == "" && !p.members[m].Unable.Has(s)
}

func (p *planner) give(s, m int) {
	p.target[s] = m
	if m != NoMember {
		p.shards[m] = append(p.shards[m], s)
	}
}

// emptiest returns the member with the fewest shards for its weight, of those that can serve this
// one, or NoMember.
func (p *planner) emptiest(s int) int {
	best, fill := NoMember, 0.0
	for m := range p.members {
		if !p.serves(m, s) {
			continue
		}
		f := float64(len(p.shards[m])+1) / p.members[m].Weight // infinite, where a weight is next to nothing
		if best == NoMember || f < fill {
			best, fill = m, f
		}
	}
	return best
}

// moveOne moves a shard from the fullest member to the emptiest one that can take it, if that makes
// the shards more even.
func (p *planner) moveOne() bool {
	members := p.byFill()
	for _, from := range members {
		for _, to := range slices.Backward(members) {
			if !p.evens(from, to) {
				continue
			}
			if s := p.movable(from, to); s != NoMember {
				p.shards[from] = slices.DeleteFunc(p.shards[from], func(x int) bool { return x == s })
				p.give(s, to)
				p.guest[s] = false
				return true
			}
		}
	}
	return false
}

// byFill returns the members that can be given shards, the fullest first.
func (p *planner) byFill() []int {
	var all []int
	for m, member := range p.members {
		if member.Closed == "" {
			all = append(all, m)
		}
	}
	slices.SortStableFunc(all, func(a, b int) int { return cmp.Compare(p.fill(b), p.fill(a)) })
	return all
}

// fill returns the number of a member's shards relative to its weight.
func (p *planner) fill(m int) float64 { return float64(len(p.shards[m])) / p.members[m].Weight }

// evens reports whether a move lowers the sum of shards²/weight.
func (p *planner) evens(from, to int) bool {
	a, b := float64(len(p.shards[from])), float64(len(p.shards[to]))
	return (2*a-1)/p.members[from].Weight > (2*b+1)/p.members[to].Weight*(1+1e-9)
}

// movable returns the shard that can move at the lowest cost, or NoMember: a guest, or else one that
// from does not own yet.
func (p *planner) movable(from, to int) int {
	best, rank := NoMember, -1
	for _, s := range p.shards[from] {
		r := 0
		if p.guest[s] {
			r += 2
		}
		if p.owner[s] != from {
			r++
		}
		if r > rank && p.serves(to, s) {
			best, rank = s, r
		}
	}
	return best
}
