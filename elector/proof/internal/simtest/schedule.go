package simtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/testredis"
)

// step is one action of a schedule.
type step struct {
	at   time.Duration
	name string
	do   func(*Sim)
}

// planner draws a schedule. Everything random is drawn here, before the
// simulation starts, except for the jitter.
type planner struct {
	sim    *Sim
	rng    *rand.Rand
	at     time.Duration
	steps  []step
	forgot []time.Duration // when nodes forget
}

// weighted is a kind of fault, and how often it is drawn among the others.
type weighted struct {
	weight int
	plan   func()
}

// draw plans one fault after the other.
func (p *planner) draw(faults []weighted, from, end time.Duration) {
	total := 0
	for _, f := range faults {
		total += f.weight
	}
	for p.at = from; p.at < end; p.at += p.upTo(2 * p.sim.t.lease) {
		n := p.rng.IntN(total)
		for _, f := range faults {
			if n -= f.weight; n < 0 {
				f.plan()
				break
			}
		}
	}
}

// schedule draws the whole schedule of faults. Each kind that is not drawn among others has dice of its own.
func (s *Sim) schedule(rng *rand.Rand) []step {
	l, end := s.t.lease, s.storm()
	p := &planner{sim: s, rng: rng}
	faults := []weighted{
		{20, p.linkFault}, {8, p.nodeFault}, {8, p.crashNode}, {12, p.pause}, {5, p.wallStep}, {2, p.noBoot},
		{6, p.shutdown}, {4, p.crash}, {8, p.probe},
	}
	if s.group == nil {
		faults = append(faults, weighted{6, p.resign}, weighted{8, p.work}, weighted{8, p.slowThenCut}, weighted{8, p.amnesia})
	}
	p.draw(faults, p.upTo(l), end)
	every := func(stream uint64, most time.Duration, until time.Duration, plan func(*planner)) {
		q := &planner{sim: s, rng: rand.New(rand.NewPCG(s.o.Seed, stream))}
		for q.at = q.upTo(most); q.at < until; q.at += q.upTo(most) {
			plan(q)
		}
		p.steps = append(p.steps, q.steps...)
	}
	// Not near the end: a candidate that waits for abstaining nodes waits for two leases at most.
	every(8, 16*l, end-time.Duration(len(s.nodes)+3)*l, (*planner).lose)
	if s.group == nil {
		every(6, 12*l, end, (*planner).ask)
		every(10, 4*l, end, (*planner).forgePlausible)
	} else {
		every(11, 6*l, end, (*planner).stick)
	}
	p.steps = slices.DeleteFunc(p.steps, func(st step) bool { return st.at >= end })
	slices.SortStableFunc(p.steps, func(a, b step) int { return int(a.at - b.at) })
	return p.steps
}

func (p *planner) upTo(d time.Duration) time.Duration {
	return time.Duration(p.rng.Int64N(int64(d)) + 1)
}

// span is how long a fault lasts: mostly about a lease, sometimes much less or
// more.
func (p *planner) span() time.Duration {
	l := p.sim.t.lease
	return p.upTo([]time.Duration{l / 10, l / 2, l, l, 2 * l, 2 * l, 5 * l}[p.rng.IntN(7)])
}

func (p *planner) add(do func(*Sim), format string, args ...any) {
	p.steps = append(p.steps, step{at: p.at, name: fmt.Sprintf(format, args...), do: do})
}

// later adds what ends a fault.
func (p *planner) later(after time.Duration, do func(*Sim), format string, args ...any) {
	p.steps = append(p.steps, step{at: p.at + after, name: fmt.Sprintf(format, args...), do: do})
}

// whom draws a host: often the one that leads at that moment (-1).
func (p *planner) whom() int {
	if p.rng.IntN(2) == 0 {
		return -1
	}
	return p.rng.IntN(len(p.sim.hosts))
}

func name(host int) string {
	if host < 0 {
		return "the leader"
	}
	return fmt.Sprintf("host %d", host)
}

// find resolves a host at the moment of a step.
func (s *Sim) find(host int) *host {
	if host >= 0 {
		return s.hosts[host]
	}
	if s.group != nil {
		return s.assigner()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if leading := s.valid(); len(leading) > 0 {
		return leading[0].host
	}
	return s.hosts[0]
}

// some draws a random set of nodes of a size.
func (p *planner) some(n int) []int {
	return p.rng.Perm(len(p.sim.nodes))[:n]
}

// linkFault hits the way from one host to one or more nodes.
func (p *planner) linkFault() {
	who, nodes, d := p.whom(), p.some(1+p.rng.IntN(len(p.sim.nodes))), p.span()
	slow := p.upTo(p.sim.t.lease / 3)
	kinds := []struct {
		name string
		set  func(*link)
	}{
		{"hangs", freeze},
		{"requests are held", func(l *link) { l.Up = testredis.Hold }},
		{"answers are held", func(l *link) { l.Down = testredis.Hold }},
		{"answers are lost", func(l *link) { l.Down = testredis.Drop }},
		{"refuses", func(l *link) { l.Refuse = true }},
		{"is slow", func(l *link) { l.Delay = slow }},
		{"answers are slow", func(l *link) { l.Late = slow }},
		{"messages are lost", func(l *link) { l.LoseMessages = true }},
		{"is reset", func(*link) {}},
	}
	k := kinds[p.rng.IntN(len(kinds))]
	cut := p.rng.IntN(2) == 0
	var hit []*link
	p.add(func(s *Sim) {
		hit = s.linksOf(who, nodes)
		s.alter(hit, k.set)
		if k.name == "refuses" || k.name == "is reset" {
			reset(hit)
		}
	}, "way from %s to nodes %v: %s (slow %v)", name(who), nodes, k.name, slow)
	p.later(d, func(s *Sim) { s.heal(hit, cut) }, "way from %s to nodes %v: healed (%s, reset %v)", name(who), nodes, k.name, cut)
}

// linksOf are a host's links to nodes.
func (s *Sim) linksOf(who int, nodes []int) (links []*link) {
	h := s.find(who)
	for _, n := range nodes {
		links = append(links, h.links[n])
	}
	return links
}

// heal mends links: what was held arrives late, or is lost by a reset.
func (s *Sim) heal(links []*link, cut bool) {
	if cut {
		reset(links)
	}
	s.alter(links, func(l *link) { l.Fault = testredis.Fault{} })
}

// alter changes the faults of links.
func (s *Sim) alter(links []*link, f func(*link)) {
	s.change(func() {
		for _, l := range links {
			f(l)
		}
	})
}

func freeze(l *link) { l.Fault = testredis.Frozen }
