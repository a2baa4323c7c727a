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
	if empty {
		s.rest(n)
	}
	n.restart(empty)
	if empty {
		s.mu.Lock()
		n.forgot = time.Now()
		s.mu.Unlock()
	}
	s.net.change(func() { n.up, n.hung = true, false })
}
