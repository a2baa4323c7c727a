package simtest

import (
	"context"
	"time"
)

// pause stops a process, or suspends its machine, for a while.
func (p *planner) pause() {
	who, d, suspend := p.whom(), p.span(), p.rng.IntN(2) == 0
	var slept time.Duration
	if p.kind = "candidate is paused"; suspend {
		slept, p.kind = d, "candidate is suspended"
	}
	var hit *proc
	p.add(func(s *Sim) { hit = s.find(who).proc.Load(); hit.pause() }, "%s is paused for %v (suspend %v)", name(who), d, suspend)
	p.later(d, func(*Sim) { hit.resume(slept) }, "%s continues", name(who))
}

func (p *planner) wallStep() {
	who, by := p.whom(), p.upTo(2*time.Hour)-time.Hour
	if p.rng.IntN(2) == 0 {
		by = p.upTo(2*p.sim.t.lease) - p.sim.t.lease
	}
	p.add(func(s *Sim) { s.find(who).proc.Load().warp.Wall.Add(int64(by)) }, "%s: wall clock steps by %v", name(who), by)
}

func (p *planner) noBoot() {
	who, off := p.whom(), p.rng.IntN(3) > 0
	p.add(func(s *Sim) { s.find(who).proc.Load().warp.NoBoot.Store(off) }, "%s: without boot clock %v", name(who), off)
}

func (p *planner) resign() {
	who := p.whom()
	p.add(func(s *Sim) {
		e := s.find(who).proc.Load().e
		s.extra.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 5*s.t.lease)
			defer cancel()
			_ = e.Resign(ctx)
		})
	}, "%s resigns", name(who))
}

func (p *planner) shutdown() {
	who, after, same := p.whom(), p.upTo(2*p.sim.t.lease), p.rng.IntN(2) == 0
	if p.rng.IntN(2) == 0 {
		after = time.Millisecond
	}
	p.add(func(s *Sim) {
		q, id := s.find(who).proc.Load(), ""
		if same {
			id = q.name
		}
		q.shutdown(after, id)
	}, "%s shuts down, and starts again %v after (same id %v)", name(who), after, same)
}

func (p *planner) crash() {
	who, after := p.whom(), p.upTo(2*p.sim.t.lease)
	p.add(func(s *Sim) { s.find(who).proc.Load().crash(after) }, "%s crashes, and starts again %v after", name(who), after)
}

func (p *planner) probe() {
	who, mode, d, work := p.whom(), p.rng.Int32N(probeModes), p.span(), p.rng.IntN(2) == 0
	var hit *probe
	p.kind = "probe is " + probeWords[mode]
	p.add(func(s *Sim) {
		q := s.find(who).proc.Load()
		if hit = q.probe; work {
			hit = q.work
		}
		hit.set(mode)
	}, "%s: probe (of the work %v) to mode %d", name(who), work, mode)
	p.later(d, func(*Sim) { hit.set(passing) }, "%s: probe passes again", name(who))
}

func (p *planner) work() {
	who, mode := p.whom(), p.rng.Int32N(workModes)
	p.kind = "work is " + workWords[mode]
	p.add(func(s *Sim) { s.find(who).proc.Load().mode.Store(mode) }, "%s: work to mode %d", name(who), mode)
}
