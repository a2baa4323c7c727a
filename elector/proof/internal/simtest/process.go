package simtest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/lease"
)

// proc is one life of a candidate: one process.
type proc struct {
	sim     *Sim
	host    *host
	name    string
	e       *elector.Elector
	warp    *lease.Warp
	granted atomic.Pointer[lease.Held]    // the newest lease: that of the running term
	paused  atomic.Pointer[chan struct{}] // set and cleared under Sim.mu
	dead    atomic.Bool                   // its connections are cut for ever; it no longer counts
	probe   *probe
	work    *probe // the work's
	mode    atomic.Int32
	stop    context.CancelFunc
	done    chan struct{} // closed when Run has returned for the last time
	born    time.Time

	// under Sim.mu
	claim   sent
	resumed time.Time
	stopped time.Time // when its shutdown began
	running *record

	observer *observer
	member   *membership // of a group; nil: it is a candidate
}

// start runs the process.
func (p *proc) start(run func()) {
	s := p.sim
	s.mu.Lock()
	s.procs, s.born = append(s.procs, p), append(s.born, p)
	s.mu.Unlock()
	p.host.proc.Store(p)
	go func() {
		defer close(p.done)
		defer s.forget(p)
		run()
	}()
}

// live runs the candidate again and again, as a supervisor would after its work
// failed.
func (p *proc) live(ctx context.Context) {
	for ctx.Err() == nil {
		err := p.e.Run(ctx, p.lead)
		p.sim.history.addf("%s: Run returned: %v", p.name, err)
		p.sim.ranOut(ctx, p, err)
		if err != nil {
			lease.Sleep(ctx, p.sim.t.lease/4)
		}
	}
}

// ranOut checks why Run returned.
func (s *Sim) ranOut(ctx context.Context, p *proc, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.running != nil {
		s.violate("%s: Run returned although the work of term %d runs", p.name, p.running.token)
	}
	if err == nil && ctx.Err() == nil || err != nil && !errors.Is(err, errWork) && !errors.Is(err, elector.ErrNotReleased) {
		s.violate("%s: Run returned %v (requested to end: %v)", p.name, err, ctx.Err() != nil)
	}
}

func (s *Sim) forget(p *proc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.procs = slices.DeleteFunc(s.procs, func(q *proc) bool { return q == p })
}

// gate blocks while the process is paused.
func (p *proc) gate() {
	for {
		ch := p.paused.Load()
		if ch == nil {
			return
		}
		<-*ch
	}
}

// lockFor locks the actual state when the process can act. False, and not locked: it is dead.
func (s *Sim) lockFor(p *proc) bool {
	for {
		p.gate()
		s.mu.Lock()
		if p.paused.Load() == nil {
			break
		}
		s.mu.Unlock()
	}
	if p.dead.Load() {
		s.mu.Unlock()
		return false
	}
	return true
}

// pause stops the process as SIGSTOP does.
func (p *proc) pause() {
	p.sim.mu.Lock()
	if p.paused.Load() == nil {
		p.paused.Store(new(make(chan struct{})))
	}
	p.sim.mu.Unlock()
	p.sim.change(func() {})
}

// resume lets it go on. After a suspend the monotonic clock has stood still.
// The very first answer that it gives must be right.
func (p *proc) resume(slept time.Duration) {
	s := p.sim
	s.mu.Lock()
	if ch := p.paused.Load(); ch != nil {
		p.warp.Mono.Add(-int64(slept))
		p.paused.Store(nil)
		close(*ch)
		p.resumed = time.Now()
		if p.running != nil && p.e.IsLeader() && time.Now().After(p.running.grant.TrueDeadline().Add(s.slack())) {
			s.violate("%s: IsLeader is true at once after a pause, %v after its deadline", p.name, time.Since(p.running.grant.TrueDeadline()))
		}
		s.overlap("resume of " + p.name)
	}
	s.mu.Unlock()
	s.change(func() {}) // what waited in its sockets continues
}

// shutdown ends the life; another one begins after a while.
func (p *proc) shutdown(after time.Duration, name string) {
	s := p.sim
	if !s.halt(p) {
		return
	}
	s.extra.Go(func() {
		<-p.done
		time.Sleep(after)
		p.host.boot(name)
	})
}

// halt ends a process, once.
func (s *Sim) halt(p *proc) bool {
	s.mu.Lock()
	first := p.stopped.IsZero()
	if first {
		p.stopped = time.Now()
	}
	s.mu.Unlock()
	p.stop()
	return first
}

// crash cuts the process off for ever: to the others it vanished without a
// word.
func (p *proc) crash(after time.Duration) {
	s := p.sim
	s.mu.Lock()
	p.dead.Store(true)
	s.mu.Unlock()
	reset(p.host.links)
	p.resume(0)
	p.pass()
	p.shutdown(after, "")
}

// pass lets all its probes pass.
func (p *proc) pass() {
	p.probe.set(passing)
	p.work.set(passing)
	if p.member != nil {
		p.member.stuck.Store(-1)
	}
}

func (p *proc) String() string { return p.name }

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
