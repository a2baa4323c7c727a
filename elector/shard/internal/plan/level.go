package plan

import (
	"cmp"
	"slices"
)

// tolerance is how far above its due a member may be before measured loads move a shard.
// Without it each small change of a load would move a shard.
const tolerance = 0.05

// level moves single shards, and then exchanges pairs, until neither makes the loads more
// even. Each move lowers the sum of load²/weight; the bound is only for rounding errors.
func (p *planner) level() {
	for range 4*p.in.Shards + 64 {
		if !p.moveOne() && !p.exchangeOne() {
			return
		}
	}
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

// fill returns the load of a member relative to its due.
func (p *planner) fill(m int) float64 { return p.sum[m] / p.due[m] }

// settled reports whether the measured loads of two members are even enough to move no shard.
func (p *planner) settled(from, to int) bool {
	return !p.uniform && p.fill(from) <= 1+tolerance && p.fill(to) >= 1-2*tolerance
}

// moveOne moves the best shard from the fullest member to the emptiest one that can take it.
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

// bestMove returns the shard whose move evens out two members most, or NoMember. Of equal shards it
// prefers a guest, and then one that from does not own yet, whose move costs nothing.
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

// gain returns by how much the sum of load²/weight falls when this load moves.
func (p *planner) gain(from, to int, load float64) float64 {
	a, b := p.in.Members[from].Weight, p.in.Members[to].Weight
	return (load*(2*p.sum[from]-load))/a - (load*(2*p.sum[to]+load))/b
}

// worth reports whether a move of measured load makes two members so much more even that noise in
// the loads will not move it back. The move must relieve from (relieves), or, between members of
// equal weight, lower the higher of the two loads by at least half of the load that moves. Where the
// shards don't divide evenly, some member always has one too many.
func (p *planner) worth(from, to int, load, gain float64) bool {
	a, b := p.in.Members[from].Weight, p.in.Members[to].Weight
	return p.uniform || gain >= load*load*(1/a+1/b)/2 || p.relieves(from, to, load)
}

// limit is the fill beyond which a member has too much, if a move or an exchange can relieve it.
const limit = 1 + 2*tolerance

// relieves reports whether a move of measured load brings from, which is beyond the limit, to within
// it, by more than noise, and does not bring to beyond it.
func (p *planner) relieves(from, to int, load float64) bool {
	after := max((p.sum[from]-load)/p.due[from], (p.sum[to]+load)/p.due[to])
	return p.fill(from) > limit && after <= min(limit, p.fill(from)-tolerance)
}

// likeness is how much the loads of two shards must differ, as a part of their sum, for an exchange.
// Of two shards with nearly equal loads, the heavier one may be another after each measurement.
const likeness = 0.25

// exchangeOne exchanges a shard of a member that is too full for a lighter one of another
// member. If all shards are heavy, no single move can help.
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

// bestExchange returns the shards of from and of to whose exchange evens them out most, or NoMember.
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
