package simtest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/lease"
	"github.com/mandate-dev/mandate/health"
)

// How a probe answers.
const (
	passing int32 = iota
	failing
	hanging // until its mode changes, whatever the context
	probeModes
)

var probeWords = [probeModes]string{"passing", "failing", "hanging"}

// probe is one whose answers the schedule decides.
type probe struct {
	proc *proc
	mode atomic.Int32
	pass atomic.Int64 // when it last passed, true time in ns

	mu     sync.Mutex
	change chan struct{}
}

func newProbe(p *proc) *probe { return &probe{proc: p, change: make(chan struct{})} }

func (p *probe) set(mode int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mode.Store(mode)
	close(p.change)
	p.change = make(chan struct{})
}

var errProbe = errors.New("the simulation says no")

// Check implements health.Probe.
func (p *probe) Check(context.Context) error {
	p.proc.gate()
	p.mu.Lock()
	mode, change := p.mode.Load(), p.change
	p.mu.Unlock()
	switch mode {
	case failing:
		return errProbe
	case hanging:
		<-change
		return errProbe
	}
	p.passed()
	return nil
}

func (p *probe) passed()             { p.pass.Store(time.Now().UnixNano()) }
func (p *probe) lastPass() time.Time { return time.Unix(0, p.pass.Load()) }

func (s *Sim) probeSettings() health.Settings {
	return health.Settings{Interval: s.t.lease / 10, Timeout: s.t.lease / 20, Failures: 2}
}

// freshness is how long a pass of a probe is believed.
func (s *Sim) freshness() time.Duration {
	p := s.probeSettings()
	return time.Duration(p.Failures)*(p.Interval+p.Timeout) + p.Interval
}

// How the work behaves.
const (
	prompt   int32 = iota // returns at once
	lazy                  // takes most of the stop margin
	stubborn              // ignores its context for up to three leases
	early                 // returns nil unasked
	broken                // returns an error unasked
	workModes
	draining // takes most of the drain time-out; in the quiet end only
)

var workWords = [workModes]string{"prompt", "lazy", "stubborn", "early", "broken"}

var errWork = errors.New("the work failed")

// lead is the work of a term.
func (p *proc) lead(ctx context.Context, term *elector.Term) error {
	s := p.sim
	r := s.begin(p, term)
	if r == nil {
		<-ctx.Done() // a dead process: it is not observed
		return nil
	}
	defer s.finish(r)
	context.AfterFunc(ctx, func() { s.cancelled(r) })
	step, own := s.t.lease/40, s.share(3*s.t.lease)
	for time.Since(r.start) < own || r.mode.Load() < early || r.mode.Load() == draining {
		lease.Sleep(ctx, step)
		p.gate()
		if ctx.Err() != nil {
			s.stop(r)
			return ctx.Err()
		}
	}
	if r.mode.Load() == broken {
		return errWork
	}
	return nil
}

// stop is how the work ends after its context has ended.
func (s *Sim) stop(r *record) {
	var rest time.Duration
	switch r.mode.Load() {
	case lazy:
		rest = s.share(s.t.stopMargin * 9 / 10)
	case draining:
		rest = s.t.lease * 9 / 10
	case stubborn:
		rest = s.share(3 * s.t.lease)
	}
	for until := time.Now().Add(rest); time.Now().Before(until) && !r.proc.dead.Load(); {
		time.Sleep(min(time.Until(until), s.t.lease/40))
		r.proc.gate()
	}
}
