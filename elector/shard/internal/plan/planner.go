package plan

import (
	"hash/fnv"
	"io"
	"slices"
)

type planner struct {
	in      Input
	loads   []float64
	uniform bool
	unable  []map[int]bool
	target  []int
	guest   []bool
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
		if !m.Closed {
			weights += m.Weight
		}
	}
	total := 0.0
	for _, l := range p.loads {
		total += l
	}
	for _, m := range in.Members {
		p.due = append(p.due, total*m.Weight/weights)
	}
	return p
}

// serves reports whether a shard can be planned for a member.
func (p *planner) serves(m, s int) bool {
	return m >= 0 && m < len(p.in.Members) && !p.in.Members[m].Closed && !p.unable[m][s]
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

// lightest returns the member with the lowest load relative to its weight once it has the shard, or
// NoMember if no member can serve the shard.
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

// tie decides between equal members. It is a hash, so that the shards of a member that has gone spread
// over all others instead of going to the first one of the list.
func (p *planner) tie(s, m int) uint64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, p.in.Members[m].ID)
	_, _ = h.Write([]byte{byte(s), byte(s >> 8), byte(s >> 16), byte(s >> 24)})
	return h.Sum64()
}
