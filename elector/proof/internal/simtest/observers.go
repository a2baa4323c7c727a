package simtest

import (
	"context"
	"strings"
	"sync"
	"testing/synctest"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// attempt is one that has held locks: what the nodes have shown of it. Fields are
// under Sim.mu.
type attempt struct {
	candidate, advertise string
	nodes                map[int]bool
	tokens               map[uint64]bool
}

// observer follows the election as one process reports it.
type observer struct {
	end  context.CancelFunc
	done sync.WaitGroup

	leader *elector.Event // nil: none, as last reported; under Sim.mu
}

func advertised(name string) string { return name + ":80" }

// observe begins to follow the election beside the process.
func (p *proc) observe(ctx context.Context) {
	s, o := p.sim, &observer{}
	ctx, o.end = context.WithCancel(ctx)
	p.observer = o
	o.done.Go(func() {
		for ev := range p.e.Election().Observe(ctx) {
			s.observed(p, ev)
		}
	})
}

// observed checks an event at the moment when it is reported.
func (s *Sim) observed(p *proc, ev elector.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.dead.Load() {
		return
	}
	switch ev.Kind {
	case elector.EventElected:
		s.history.addf("  %s observes %s %d", p.name, ev.Candidate, ev.Token)
		p.observer.leader = &ev
		s.confirmed(p, ev.Candidate, ev.Advertise, ev.Token)
	case elector.EventReleased, elector.EventVacant:
		p.observer.leader = nil
	default: // changes no leadership
	}
}

// note remembers what a node's lock says, before the next command changes it.
func (s *Sim) note(n *node) {
	value, err := n.redis.Get(s.keys.Lock)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noted(n, value)
}

// rest notes what the node granted before it loses it, in an instant without a request
// under way.
func (s *Sim) rest(n *node) {
	synctest.Wait()
	s.note(n)
}

func (s *Sim) noted(n *node, value string) {
	if n.noted == value {
		return
	}
	n.noted = value
	b, err := protocol.ParseLockValue(value)
	if err != nil {
		return
	}
	who, _, _ := strings.Cut(value, " ")
	a := s.attempts[who]
	if a == nil {
		a = &attempt{candidate: b.Candidate, advertise: b.Advertise, nodes: map[int]bool{}, tokens: map[uint64]bool{}}
		s.attempts[who] = a
	}
	a.nodes[n.id], a.tokens[b.Token] = true, true
}

// granted notes what was set since the last command. s.mu is held.
func (s *Sim) granted() {
	for _, n := range s.nodes {
		if v, err := n.redis.Get(s.keys.Lock); err == nil {
			s.noted(n, v)
		}
	}
}

// confirmed checks that the candidate that is named as leader is one that a majority of the nodes
// had, with that token and that address. s.mu is held.
func (s *Sim) confirmed(p *proc, candidate, address string, token uint64) {
	s.granted()
	for _, a := range s.attempts {
		if a.candidate == candidate && a.advertise == address && a.tokens[token] && len(a.nodes) > len(s.nodes)/2 {
			return
		}
	}
	s.violate("%s: Observe names %s at %q with token %d, whom Redis did not confirm", p.name, candidate, address, token)
}

// aware checks that a process has noticed who leads: without faults.
func (s *Sim) aware(p *proc, leader string, token uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ev := p.observer.leader; ev == nil || ev.Candidate != leader || ev.Token != token {
		s.violate("%s: Observe has %+v as leader, it is %s with token %d", p.name, ev, leader, token)
	}
}
