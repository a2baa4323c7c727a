package simtest

import (
	"slices"
	"strings"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

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
		s.rest(s.nodes[n])
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

// mayStep keeps the condition of the guarantee for each election: a step ends all keys of the node early.
func (s *Sim) mayStep(stepped *node) bool {
	if s.o.Mode == TokensOnly {
		return true
	}
	if s.group != nil {
		return !slices.ContainsFunc(s.group.shards, func(st shardState) bool { return !s.spares(stepped, st.keys) })
	}
	return s.spares(stepped, s.keys)
}

// spares reports whether a majority of the other nodes has taken
// the renewal (or claim) whose lock ends early here. Then they keep it as long as this one
// would have, but for the jitter of the network, which the drift allowance covers.
func (s *Sim) spares(stepped *node, keys protocol.Keys) bool {
	if stepped.redis.Exists(keys.New) { // it has forgotten, and must abstain for a lease
		return false
	}
	attempt, ttl := stepped.attempt(keys.Lock)
	if attempt == "" {
		return true
	}
	const jitter = time.Millisecond
	left := 0
	for _, n := range s.nodes {
		if a, t := n.attempt(keys.Lock); n != stepped && a == attempt && t >= ttl-jitter {
			left++
		}
	}
	return left > len(s.nodes)/2
}

// attempt is whose lock a node has, and for how long; "" when it is free.
func (n *node) attempt(lock string) (who string, ttl time.Duration) {
	v, err := n.redis.Get(lock)
	if err != nil {
		return "", 0
	}
	who, _, _ = strings.Cut(v, " ")
	return who, n.redis.TTL(lock)
}
