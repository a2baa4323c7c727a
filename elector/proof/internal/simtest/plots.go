package simtest

import (
	"slices"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/testredis"
)

// The plots are faults that only bite together: single random ones would meet
// in the right order once in days.

// slowThenCut makes all answers to the leader slow, so that what counts from the
// answer instead of from the request is wrong by much; then nothing gets through
// at all, and the others are notified that the lock is free.
func (p *planner) slowThenCut() {
	l := p.sim.t.lease
	slow, first, second := p.sim.t.callTimeout/2+p.upTo(p.sim.t.callTimeout/2), p.upTo(2*l), l/2+p.upTo(2*l)
	way, all, late := p.rng.IntN(3), p.rng.IntN(2) == 0, p.rng.IntN(2) == 0
	held, elect := map[bool]testredis.Mode{true: testredis.Hold}, p.rng.IntN(2) == 0
	if elect { // hit the winner before its first renewal
		first = 4*slow + p.upTo(l/8)
	}
	var hit []*link
	p.add(func(s *Sim) {
		h := s.find(-1)
		hit = h.links
		if elect {
			h.proc.Load().shutdown(l, "")
			hit = nil
			for _, h := range s.hosts {
				hit = append(hit, h.links...)
			}
		}
		s.alter(hit, func(k *link) { k.Late = slow })
	}, "slow, then cut off: answers to the leader are slow (%v, and its successor's %v)", slow, elect)
	p.later(first, func(s *Sim) {
		cut := s.find(-1).links
		hit = append(hit[:len(hit):len(hit)], cut...)
		if !all {
			cut = cut[:len(cut)/2+1]
		}
		s.alter(cut, func(k *link) { k.Up, k.Down = held[way != 1], held[way != 2] })
	}, "slow, then cut off: and cut off (way %d, all %v)", way, all)
	for at := first; at < first+second; at += l / 5 {
		p.later(at, alarm, "slow, then cut off: false alarm")
	}
	p.later(first+second, func(s *Sim) { s.heal(hit, late) }, "slow, then cut off: healed (reset %v)", late)
}

// amnesia lets the leader hold a bare majority, then one node of it forgets
// while the leader can't renew.
func (p *planner) amnesia() {
	nodes := len(p.sim.nodes)
	l := p.sim.t.lease
	minority := p.some(nodes / 2)
	wait := l + p.upTo(l/2)
	forgetAt := wait + p.upTo(l/10)
	if nodes == 1 || !p.mayForget(p.at+forgetAt) {
		return
	}
	victim := p.rng.IntN(nodes)
	for slices.Contains(minority, victim) {
		victim = (victim + 1) % nodes
	}
	cutAll := p.rng.IntN(3) > 0
	var hit []*link
	p.add(func(s *Sim) {
		hit = s.find(-1).links
		s.alter(s.linksOf(-1, minority), freeze)
	}, "amnesia: the leader is cut from nodes %v", minority)
	p.later(forgetAt, func(s *Sim) {
		s.crash(s.nodes[victim])
		s.restart(s.nodes[victim], true)
		if cutAll {
			s.alter(hit, freeze)
		}
	}, "amnesia: node %d forgets (leader cut from all %v)", victim, cutAll)
	for at := forgetAt + time.Millisecond; at < forgetAt+l; at += l / 7 {
		p.later(at, alarm, "amnesia: false alarm")
	}
	p.later(forgetAt+l+p.upTo(l), func(s *Sim) { s.heal(hit, false) }, "amnesia: healed")
}
