package simtest

import (
	"time"
)

// nodeFault makes a node hang, or answer with an error, for everybody.
func (p *planner) nodeFault() {
	count := 1
	if p.rng.IntN(4) == 0 {
		count = len(p.sim.nodes)/2 + 1
	}
	nodes, d := p.some(count), p.span()
	if p.rng.IntN(3) == 0 {
		msg := []string{"LOADING Redis is loading the dataset in memory", "READONLY You can't write against a read only replica."}[p.rng.IntN(2)]
		p.kind = "node answers with an error"
		p.add(func(s *Sim) { s.each(nodes, func(n *node) { n.redis.SetError(msg) }) }, "nodes %v say %s", nodes, msg)
		p.later(d, func(s *Sim) { s.each(nodes, func(n *node) { n.redis.SetError("") }) }, "nodes %v answer again", nodes)
		return
	}
	hang := func(on bool) func(*Sim) {
		return func(s *Sim) { s.net.change(func() { s.each(nodes, func(n *node) { n.hung = on }) }) }
	}
	p.kind = "node hangs"
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
	if p.kind = "node crashes, keeps its data"; empty {
		p.kind = "node crashes, forgets"
	}
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
	s.net.change(func() { n.up = false })
	s.net.reset(func(c *conn) bool { return c.link.node == n })
}

func (s *Sim) restart(n *node, empty bool) {
	n.restart(empty)
	if empty {
		s.mu.Lock()
		n.forgot = time.Now()
		s.mu.Unlock()
	}
	s.net.change(func() { n.up, n.hung = true, false })
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

// stepClock steps the wall clock of a node, by which it counts what is left of its
// keys: forward they end early, back they stay longer. (TIME is not bent.)
func (p *planner) stepClock(end time.Duration) {
	l := p.sim.t.lease
	n, back := p.rng.IntN(len(p.sim.nodes)), p.rng.IntN(4) == 0
	by := p.upTo([]time.Duration{l, 2 * l, 5 * l, time.Hour}[p.rng.IntN(4)])
	if back {
		// The quiet end counts on locks that end within a lease.
		if by = p.upTo(l); p.at+by < end {
			p.kind = "node's clock steps back"
			p.add(func(s *Sim) { s.nodes[n].redis.FastForward(-by) }, "the clock of node %d steps back by %v", n, by)
		}
		return
	}
	p.kind = "" // counted where it happens
	p.add(func(s *Sim) {
		if !s.mayStep(s.nodes[n]) {
			return
		}
		s.history.addf("it steps")
		if who, ttl := s.nodes[n].attempt(s.keys.Lock); who != "" && ttl <= by {
			s.faults["node's clock steps beyond its lock"]++
		}
		s.nodes[n].redis.FastForward(by)
	}, "the clock of node %d steps by %v, if that is promised to be harmless", n, by)
}
