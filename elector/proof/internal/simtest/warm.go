package simtest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// How a candidate gets warm.
const (
	atOnce   = iota
	slowly   // perhaps for longer than the leader waits
	never    // until its context ends
	ignoring // for long, whatever its context
	failed
	panicked
	warmModes
)

var errWarm = errors.New("the simulation has no cache")

// warmth is Config.Warm of a process.
type warmth struct {
	proc *proc

	mu  sync.Mutex
	rng *rand.Rand

	// under Sim.mu
	running  int
	obeys    bool // the one that runs ends with its context
	disobeys bool // it does not, although the checker believes so
}

func (s *Sim) newWarmth(p *proc) *warmth {
	return &warmth{proc: p, rng: rand.New(rand.NewPCG(s.o.Seed, 1<<33+uint64(p.host.id)<<16+uint64(p.host.boots)))}
}

func (w *warmth) draw(most time.Duration) (mode int, takes time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rng.IntN(warmModes), time.Duration(w.rng.Int64N(int64(most)) + 1)
}

// warm is called by the library.
func (w *warmth) warm(ctx context.Context) error {
	s := w.proc.sim
	w.proc.gate()
	mode, takes := w.draw(2 * s.t.lease)
	disobeys, alive := w.begin(mode)
	if !alive {
		<-ctx.Done()
		return ctx.Err()
	}
	defer w.end()
	if disobeys {
		mode = ignoring
	}
	switch mode {
	case slowly:
		sleep(ctx, takes)
	case never:
		<-ctx.Done()
	case ignoring:
		time.Sleep(takes)
	case failed:
		return errWarm
	case panicked:
		panic("the simulation's cache panics")
	}
	w.proc.gate()
	return ctx.Err()
}

func (w *warmth) begin(mode int) (disobeys, alive bool) {
	s := w.proc.sim
	if !s.lockFor(w.proc) {
		return false, false
	}
	defer s.mu.Unlock()
	s.history.addf("%s gets warm (mode %d)", w.proc.name, mode)
	if w.running++; w.running > 1 {
		s.violate("%s gets warm twice at a time", w.proc.name)
	}
	w.obeys = mode != ignoring
	s.warmed++
	s.warming.Add(1)
	return w.disobeys, true
}

func (w *warmth) end() {
	s := w.proc.sim
	s.mu.Lock()
	defer s.mu.Unlock()
	w.running--
	s.warming.Done()
}

// lookWarm checks that none gets warm beside its work that was told not to. s.mu is held.
func (s *Sim) lookWarm() {
	for _, p := range s.procs {
		if p.counts() && p.running != nil && p.warmth.running > 0 && p.warmth.obeys {
			s.violate("%s still gets warm in its term %d", p.name, p.running.token)
		}
	}
}

// waited checks that a planned end of a term is not put off for longer than it may. s.mu is held.
func (s *Sim) waited(r *record) {
	p := r.proc
	if r.asked.IsZero() || !p.counts() || !p.resumed.IsZero() && !p.resumed.Before(r.asked) {
		return
	}
	if waited := time.Since(r.asked); waited > s.t.warmTimeout+s.slack() {
		s.violate("%s: term %d ended %v after that was asked for, it may wait for its heir for %v", p.name, r.token, waited, s.t.warmTimeout)
	}
}

// ask notes that a term is to end as planned. s.mu is held.
func (p *proc) ask() {
	if r := p.running; r != nil && r.asked.IsZero() {
		r.asked = time.Now()
	}
}

// perish has a leader die without a fault anywhere else, at once or while its heir gets warm: nobody waits for that.
func (s *Sim) perish(p *proc) {
	if s.deathRng.IntN(2) == 0 {
		s.halt(p)
		s.until(time.Now().Add(time.Duration(s.deathRng.Int64N(int64(s.t.warmTimeout)))))
	}
	s.history.addf("%s dies", p.name)
	p.vanish()
	if !s.awaitLeader(s.recoveryLimit()) {
		s.fault("no leader %v after %s died", s.recoveryLimit(), p.name)
	}
}
