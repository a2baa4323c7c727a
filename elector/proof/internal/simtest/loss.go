package simtest

import (
	"fmt"
	"time"
)

// lose makes all nodes forget, at once or one after the other: a deploy of Redis
// without persistence, an operator's FLUSHALL. Tokens then rest on wall clocks, so
// these must be right.
func (p *planner) lose() {
	if p.sim.o.Mode != Safe {
		return
	}
	t := p.sim.t
	gap := []time.Duration{0, 0, t.renewEvery / 4, 2 * t.renewEvery, t.lease}[p.rng.IntN(5)]
	p.kind = "all nodes forget"
	if gap > t.renewEvery {
		p.kind = "all nodes forget, one after the other"
	}
	for i, n := range p.rng.Perm(len(p.sim.nodes)) {
		forget := func(s *Sim) { s.restart(s.nodes[n], true) }
		if i == 0 {
			p.add(forget, "all nodes forget (gap %v): node %d", gap, n)
		} else {
			p.later(time.Duration(i)*gap, forget, "all nodes forget: node %d", n)
		}
		if p.rng.IntN(2) == 0 { // have candidates claim at once
			p.later(time.Duration(i)*gap+time.Millisecond, alarm, "all nodes forget: false alarm")
		}
	}
}

// mayOverlap reports whether two valid terms are within the documented exception: all
// nodes have forgotten within a lease (a leader that reached one of them since has its
// lock there), and one of the two began to campaign less than a lease before it
// claimed. s.mu is held.
func (s *Sim) mayOverlap(ps ...*proc) bool {
	if !s.allForgot() {
		return false
	}
	for _, p := range ps {
		if r := p.running; r != nil && s.wasYoung(p, r.claim.at) {
			return true
		}
	}
	return false
}

func (s *Sim) wasYoung(p *proc, claimSent time.Time) bool {
	return claimSent.Sub(p.born) <= s.t.lease+s.slack()
}

// allForgot reports whether all nodes have forgotten within a lease. s.mu is held.
func (s *Sim) allForgot() bool {
	for _, n := range s.nodes {
		if n.forgot.IsZero() || time.Since(n.forgot) > s.t.lease+s.slack() {
			return false
		}
	}
	return true
}

// valid is who leads right now. s.mu is held.
func (s *Sim) valid() (ps []*proc) {
	for _, p := range s.procs {
		if p.counts() && p.e.IsLeader() {
			ps = append(ps, p)
		}
	}
	return ps
}

func names(ps []*proc) string { return fmt.Sprint(ps) }
