package simtest

import (
	"context"
	"strings"
	"sync"

	"github.com/mandate-dev/mandate/elector"
)

// observer follows the election as one process reports it.
type observer struct {
	end    context.CancelFunc
	done   sync.WaitGroup
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

// observed checks that the leader and the address that are reported are not those of a forged message.
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
		if ev.Advertise != advertised(ev.Candidate) || strings.HasPrefix(ev.Candidate, "evil") {
			s.violate("%s: Observe names %s at %q with token %d, as a forged message does", p.name, ev.Candidate, ev.Advertise, ev.Token)
		}
	case elector.EventReleased, elector.EventVacant:
		p.observer.leader = nil
	default: // changes no leadership
	}
}

// aware checks that a process has noticed who leads: without faults.
func (s *Sim) aware(p *proc, leader string, token uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ev := p.observer.leader; ev == nil || ev.Candidate != leader || ev.Token != token {
		s.violate("%s: Observe has %+v as leader, it is %s with token %d", p.name, ev, leader, token)
	}
}
