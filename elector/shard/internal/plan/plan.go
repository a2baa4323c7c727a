// Package plan computes which member of a group should own which shard. It is pure: the
// same input gives the same plan on every machine, so that two assigners at one time
// agree. Nothing depends on a plan but balance.
package plan

import (
	"cmp"
	"hash/fnv"
	"io"
	"math"
	"slices"
)

// NoMember is the index of no member.
const NoMember = -1

// Member is one that shards can be planned for.
type Member struct {
	ID     string
	Weight float64 // its part of the load, relative to the others; above zero
	Closed bool    // it keeps nothing and is given nothing: drained, or about to stop
	Full   bool    // it keeps what it owns and is given nothing: cordoned
	Unable []int   // shards that it can't serve for now
}

// Input is what a plan is made from.
type Input struct {
	Members []Member
	Loads   []float64 // by shard; nil, or below zero: as heavy as the others on average
	Shards  int
	Owner   []int // by shard: the member that owns it, or NoMember
	Planned []int // by shard: the member of the plan before, or NoMember
	// Guest is by shard whether it is where it is only because its former member has gone.
	// When another one comes, it is given these: so each shard moves twice in a rolling
	// restart, and no more.
	Guest []bool
}

// Plan is who should own what.
type Plan struct {
	Target []int  // by shard: a member, or NoMember when none can
	Guest  []bool // as that of the Input, for the next plan
}

// tolerance is how far above its due a member may be before measured loads move a shard:
// without it each small change of a load would move something.
const tolerance = 0.05

// Make makes a plan.
//
// A shard stays where it is planned, else where it is owned, if that member can serve it;
// the others go to the members that are farthest below their due. Then single shards move
// from a member above its due to one below, as long as each move makes the loads more even
// (the sum of load²/weight falls, so this ends). With equal loads this is the smallest
// number of moves: a shard moves only from a member with too many to one with too few.
func Make(in Input) Plan {
	p := newPlanner(in)
	var homeless []int
	for s := range in.Shards {
		switch {
		case p.kept[s]:
			p.target[s] = in.Owner[s]
		case p.serves(at(in.Planned, s), s):
			p.give(s, in.Planned[s])
		case p.serves(at(in.Owner, s), s):
			p.give(s, in.Owner[s])
		default:
			homeless = append(homeless, s)
		}
	}
	// The heaviest first: the light ones fill the gaps that remain.
	slices.SortStableFunc(homeless, func(a, b int) int { return cmp.Compare(p.loads[b], p.loads[a]) })
	for _, s := range homeless {
		p.give(s, p.lightest(s))
		p.guest[s] = len(in.Planned) > 0 // else it is new
	}
	p.level()
	return Plan{Target: p.target, Guest: p.guest}
}

// Limit is the part of a plan that may be carried out now: at most budget shards leave a
// member that owns them at one time. The moves of the plan in force, which the plan was made
// from, go on.
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

type planner struct {
	in      Input
	loads   []float64
	uniform bool
	unable  []map[int]bool
	target  []int
	guest   []bool
	kept    []bool    // by shard: its owner is full, so it stays there
	sum     []float64 // by member: the load that is planned for it
	shards  [][]int   // by member
	due     []float64 // by member
}

func newPlanner(in Input) *planner {
	p := &planner{in: in, target: make([]int, in.Shards), sum: make([]float64, len(in.Members)), shards: make([][]int, len(in.Members))}
	for s := range p.target {
		p.target[s] = NoMember
		p.guest = append(p.guest, in.guest(s))
	}
	p.loads, p.uniform = normal(in.Loads, in.Shards)
	weights := 0.0
	for _, m := range in.Members {
		no := make(map[int]bool, len(m.Unable))
		for _, s := range m.Unable {
			no[s] = true
		}
		p.unable = append(p.unable, no)
		if p.open(m) {
			weights += m.Weight
		}
	}
	total := 0.0
	for s, l := range p.loads {
		p.kept = append(p.kept, p.keeps(at(in.Owner, s), s))
		if !p.kept[s] {
			total += l
		}
	}
	for _, m := range in.Members {
		p.due = append(p.due, total*m.Weight/weights)
	}
	return p
}

// idle is what a shard without any load counts, as a part of the average: idle ones are
// spread, too.
const idle = 0.05

// normal are the loads with the average in the place of those that are not known.
func normal(loads []float64, shards int) (all []float64, uniform bool) {
	known, sum := 0, 0.0
	for s := range shards {
		if s < len(loads) && isLoad(loads[s]) {
			known, sum = known+1, sum+loads[s]
		}
	}
	average := 1.0
	if sum > 0 && !math.IsInf(sum, 0) {
		average = sum / float64(known)
	}
	all, uniform = make([]float64, shards), true
	for s := range all {
		all[s] = average
		if s < len(loads) && isLoad(loads[s]) {
			all[s] = max(loads[s], idle*average)
		}
		uniform = uniform && all[s] == all[0]
	}
	return all, uniform
}

// isLoad reports whether a load can be reckoned with: a sum of the largest ones is none.
func isLoad(l float64) bool { return l >= 0 && l < math.MaxFloat64/group }

// group is more shards than any group has.
const group = 1 << 20

// open reports whether a member can be given shards.
func (p *planner) open(m Member) bool { return !m.Closed && !m.Full }

// keeps reports whether a member that is given none keeps a shard that it owns.
func (p *planner) keeps(m, s int) bool {
	return m >= 0 && m < len(p.in.Members) && p.in.Members[m].Full && !p.in.Members[m].Closed && !p.unable[m][s]
}

// serves reports whether a shard can be planned for a member.
func (p *planner) serves(m, s int) bool {
	return m >= 0 && m < len(p.in.Members) && p.open(p.in.Members[m]) && !p.unable[m][s]
}

func (p *planner) give(s, m int) {
	p.target[s] = m
	if m != NoMember {
		p.sum[m] += p.loads[s]
		p.shards[m] = append(p.shards[m], s)
	}
}

// move gives a shard to another member.
func (p *planner) move(s, to int) {
	from := p.target[s]
	p.sum[from] -= p.loads[s]
	p.shards[from] = slices.DeleteFunc(p.shards[from], func(x int) bool { return x == s })
	p.give(s, to)
}

// lightest is the member that is filled least once it has the shard.
func (p *planner) lightest(s int) int {
	best, fill := NoMember, 0.0
	for m := range p.in.Members {
		if !p.serves(m, s) {
			continue
		}
		f := (p.sum[m] + p.loads[s]) / p.in.Members[m].Weight // infinite, where a weight is next to nothing
		if best == NoMember || f < fill || f == fill && p.tie(s, m) > p.tie(s, best) {
			best, fill = m, f
		}
	}
	return best
}

// tie decides between equals: by hash, so that the shards of one member spread over all
// others, and not over the first of the list.
func (p *planner) tie(s, m int) uint64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, p.in.Members[m].ID)
	_, _ = h.Write([]byte{byte(s), byte(s >> 8), byte(s >> 16), byte(s >> 24)})
	return h.Sum64()
}

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

// exchangeOne exchanges a shard of a member that is too full for a lighter one of
// another: where all shards are heavy, no single move can help.
func (p *planner) exchangeOne() bool {
	if p.uniform {
		return false
	}
	members := p.byFill()
	for _, from := range members {
		if p.fill(from) <= 1+2*tolerance {
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
			if d := p.loads[x] - p.loads[y]; d > 0 && p.serves(to, x) && p.serves(from, y) {
				if g := p.gain(from, to, d); g > gain {
					a, b, gain = x, y, g
				}
			}
		}
	}
	return a, b
}
