package plan

import (
	"cmp"
	"slices"
)

// tolerance is how far above its due a member may be before measured loads move a shard:
// without it each small change of a load would move something.
const tolerance = 0.05

// level moves single shards, and then exchanges pairs, until neither makes the loads more
// even. Each move lowers the same sum; the bound is for rounding errors alone.
func (p *planner) level() {
	for range 4*p.in.Shards + 64 {
		if !p.moveOne() && !p.exchangeOne() {
			return
		}
	}
}

// byFill are the members that may own shards, the fullest first.
func (p *planner) byFill() []int {
	var all []int
	for m, member := range p.in.Members {
		if p.open(member) {
			all = append(all, m)
		}
	}
	slices.SortFunc(all, func(a, b int) int {
		return cmp.Or(cmp.Compare(p.fill(b), p.fill(a)), cmp.Compare(p.in.Members[a].ID, p.in.Members[b].ID))
	})
	return all
}

// fill is the load of a member relative to its due.
func (p *planner) fill(m int) float64 { return p.sum[m] / p.due[m] }

// settled reports whether measured loads are even enough to leave all where it is.
func (p *planner) settled(from, to int) bool {
	return !p.uniform && p.fill(from) <= 1+tolerance && p.fill(to) >= 1-2*tolerance
}

// moveOne moves the best shard from the fullest member to the emptiest that it can go to.
func (p *planner) moveOne() bool {
	members := p.byFill()
	for _, from := range members {
		for _, to := range slices.Backward(members) {
			if p.fill(from) <= p.fill(to) || p.settled(from, to) {
				break
			}
			if s := p.bestMove(from, to); s != NoMember {
				p.move(s, to)
				p.guest[s] = false
				return true
			}
		}
	}
	return false
}

// bestMove is the shard whose move evens out two members most. Of equals it is a guest, and
// then one that the member does not own yet: to move that costs nothing.
func (p *planner) bestMove(from, to int) int {
	best, gain, rank := NoMember, epsilon, 0
	for _, s := range p.shards[from] {
		if !p.serves(to, s) {
			continue
		}
		g, r := p.gain(from, to, p.loads[s]), 0
		if !p.worth(from, to, p.loads[s], g) {
			continue
		}
		if p.guest[s] {
			r += 2
		}
		if at(p.in.Owner, s) != from {
			r++
		}
		if g > gain || g == gain && r > rank {
			best, gain, rank = s, g, r
		}
	}
	return best
}

const epsilon = 1e-9

// gain is by how much the sum of load²/weight falls when so much load moves.
func (p *planner) gain(from, to int, load float64) float64 {
	a, b := p.in.Members[from].Weight, p.in.Members[to].Weight
	return (load*(2*p.sum[from]-load))/a - (load*(2*p.sum[to]+load))/b
}

// worth reports whether a move of measured load makes two members so much more even that noise of
// the loads will not move it back: it relieves the one, or, between equals, it lowers the higher of their loads by
// at least half of what moves. Where the shards do not divide evenly, somebody always has one too many.
func (p *planner) worth(from, to int, load, gain float64) bool {
	a, b := p.in.Members[from].Weight, p.in.Members[to].Weight
	return p.uniform || gain >= load*load*(1/a+1/b)/2 || p.relieves(from, to, load)
}

// limit is how much of its due a member may have where the sizes of the shards allow less.
const limit = 1 + 2*tolerance

// relieves reports whether a move of measured load brings a member that has too much within the limit, by more
// than noise, and the other one not beyond.
func (p *planner) relieves(from, to int, load float64) bool {
	after := max((p.sum[from]-load)/p.due[from], (p.sum[to]+load)/p.due[to])
	return p.fill(from) > limit && after <= min(limit, p.fill(from)-tolerance)
}

// likeness is how much two shards must differ, as a part of what they weigh together, to be
// exchanged: which of two that are nearly equal is the heavier one changes with each measurement.
const likeness = 0.25

// exchangeOne exchanges a shard of a member that is too full for a lighter one of
// another: where all shards are heavy, no single move can help.
func (p *planner) exchangeOne() bool {
	if p.uniform {
		return false
	}
	members := p.byFill()
	for _, from := range members {
		if p.fill(from) <= limit {
			return false
		}
		for _, to := range slices.Backward(members) {
			if p.fill(from) <= p.fill(to) {
				break
			}
			if a, b := p.bestExchange(from, to); a != NoMember {
				p.move(a, to)
				p.move(b, from)
				return true
			}
		}
	}
	return false
}

func (p *planner) bestExchange(from, to int) (a, b int) {
	a, b = NoMember, NoMember
	gain := epsilon
	for _, x := range p.shards[from] {
		for _, y := range p.shards[to] {
			d := p.loads[x] - p.loads[y]
			if d > 0 && (d >= likeness*(p.loads[x]+p.loads[y]) || p.relieves(from, to, d)) && p.serves(to, x) && p.serves(from, y) {
				if g := p.gain(from, to, d); g > gain && p.worth(from, to, d, g) {
					a, b, gain = x, y, g
				}
			}
		}
	}
	return a, b
}
