package simtest

import (
	"context"
	"time"
)

// pause stops a process, or suspends its machine, for a while.
func (p *planner) pause() {
	who, d, suspend := p.whom(), p.span(), p.rng.IntN(2) == 0
	var slept time.Duration
	if suspend {
		slept = d
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
	p.add(func(s *Sim) {
		q := s.find(who).proc.Load()
		if hit = q.probe; work {
			hit = q.work
		}
		hit.set(mode)
	}, "%s: probe (of the work %v) is %s", name(who), work, probeWords[mode])
	p.later(d, func(*Sim) { hit.set(passing) }, "%s: probe passes again", name(who))
}

func (p *planner) work() {
	who, mode := p.whom(), p.rng.Int32N(workModes)
	p.add(func(s *Sim) { s.find(who).proc.Load().mode.Store(mode) }, "%s: work is %s", name(who), workWords[mode])
}

// nodeFault makes a node hang, or answer with an error, for everybody.
func (p *planner) nodeFault() {
	count := 1
	if p.rng.IntN(4) == 0 {
		count = len(p.sim.nodes)/2 + 1
	}
	nodes, d := p.some(count), p.span()
	if p.rng.IntN(3) == 0 {
		msg := []string{"LOADING Redis is loading the dataset in memory", "READONLY You can't write against a read only replica."}[p.rng.IntN(2)]
		p.add(func(s *Sim) { s.each(nodes, func(n *node) { n.RefuseWith(msg) }) }, "nodes %v say %s", nodes, msg)
		p.later(d, func(s *Sim) { s.each(nodes, func(n *node) { n.RefuseWith("") }) }, "nodes %v answer again", nodes)
		return
	}
	hang := func(on bool) func(*Sim) {
		return func(s *Sim) { s.change(func() { s.each(nodes, func(n *node) { n.hung = on }) }) }
	}
	p.add(hang(true), "nodes %v hang", nodes)
	p.later(d, hang(false), "nodes %v go on", nodes)
}

func (s *Sim) each(nodes []int, f func(*node)) {
	for _, i := range nodes {
		f(s.nodes[i])
	}
}

// crashNode crashes a node and starts it again, with its data or without.
func (p *planner) crashNode() {
	n, d := p.rng.IntN(len(p.sim.nodes)), p.span()
	if p.rng.IntN(2) == 0 {
		d = time.Millisecond // restarted at once
	}
	empty := p.rng.IntN(2) == 0 && p.mayForget(p.at+d)
	p.add(func(s *Sim) { s.crash(s.nodes[n]) }, "node %d crashes", n)
	p.later(d, func(s *Sim) { s.restart(s.nodes[n], empty) }, "node %d restarts (empty %v)", n, empty)
}

// mayForget keeps the condition of the safe mode: within a lease at most a
// minority forgets.
func (p *planner) mayForget(at time.Duration) bool {
	switch p.sim.o.Mode {
	case WallHints:
		return false
	case TokensOnly:
		return true
	default:
	}
	near := 1
	for _, f := range p.forgot {
		if (f - at).Abs() <= p.sim.t.lease*101/100 {
			near++
		}
	}
	if near > len(p.sim.nodes)/2 {
		return false
	}
	p.forgot = append(p.forgot, at)
	return true
}

func (s *Sim) crash(n *node) {
	s.change(func() { n.up = false })
}

func (s *Sim) restart(n *node, empty bool) {
	n.restart(empty)
	if empty {
		s.mu.Lock()
		n.forgot = time.Now()
		s.mu.Unlock()
	}
	s.change(func() { n.up, n.hung = true, false })
}

// lose makes all nodes forget, at once or one after the other: a deploy of Redis
// without persistence, an operator's FLUSHALL. Tokens then rest on wall clocks, so
// these must be right.
func (p *planner) lose() {
	if p.sim.o.Mode != Safe {
		return
	}
	t := p.sim.t
	gap := []time.Duration{0, 0, t.renewEvery / 4, 2 * t.renewEvery, t.lease}[p.rng.IntN(5)]
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
