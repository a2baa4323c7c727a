package simtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/lease"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// beside is one more election with the same candidates. In each process it shares a Quorum with the
// election that is checked in full, so that their requests travel together. The checks look for what one election takes of
// another: its answer, its probe's verdict, its lease. Fields are under Sim.mu.
type beside struct {
	name    string
	keys    protocol.Keys
	highest uint64 // token
	terms   int
}

func newBeside(i int) *beside {
	name := fmt.Sprint(election, "-beside-", i)
	return &beside{name: name, keys: protocol.KeysOf("mandate", name)}
}

// side is the candidacy of a process in one of them. It has a probe of its own, and no work but to wait.
type side struct {
	proc     *proc
	election *beside
	e        *elector.Elector
	probe    *probe
	granted  atomic.Pointer[lease.Held] // the newest lease

	// under Sim.mu
	prefix    string // of its lock values
	claimSent time.Time
	claimSeq  uint64
	running   *sideTerm
}

// sideTerm is a term whose work runs.
type sideTerm struct {
	token, seq uint64
	grant      lease.Held
	claimSent  time.Time
}

func (p *proc) newSide(q *elector.Quorum, election *beside) *side {
	s := p.sim
	c := &side{proc: p, election: election, probe: newProbe(p)}
	var err error
	c.e, err = elector.New(q, elector.Config{
		Election: election.name, ID: p.name, Lease: s.t.lease, RenewEvery: s.t.renewEvery, StopMargin: s.t.stopMargin,
		Cooldown: s.t.cooldown, Logger: s.history.logger().With("beside", election.name), Probe: c.probe, ProbeSettings: s.probeSettings(),
	})
	if err != nil {
		panic(err)
	}
	return c
}

// runSides runs the candidates of the other elections until ctx ends.
func (p *proc) runSides(ctx context.Context) *sync.WaitGroup {
	var running sync.WaitGroup
	for _, c := range p.sides {
		running.Go(func() {
			ctx := lease.WithClock(ctx, lease.ClockOf(p.warp, func(g lease.Held) { c.granted.Store(&g) }))
			for ctx.Err() == nil {
				err := c.e.Run(ctx, c.lead)
				if p.sim.ranOutBeside(ctx, c, err); err != nil {
					sleep(ctx, p.sim.t.lease/4)
				}
			}
		})
	}
	return &running
}

func (c *side) String() string { return c.proc.String() + " in " + c.election.name }

func (s *Sim) ranOutBeside(ctx context.Context, c *side, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !endedWell(ctx, err) {
		s.violate("%s: Run returned %v", c, err)
	}
}

// lead is the work.
func (c *side) lead(ctx context.Context, term *elector.Term) error {
	if c.begin(term) {
		defer c.finish()
	}
	<-ctx.Done()
	c.proc.gate()
	return nil
}

// begin notes the start of a term, and checks that tokens grow.
func (c *side) begin(term *elector.Term) bool {
	s, e := c.proc.sim, c.election
	for {
		c.proc.gate()
		s.mu.Lock()
		if c.proc.paused.Load() == nil {
			break
		}
		s.mu.Unlock()
	}
	defer s.mu.Unlock()
	if c.proc.dead.Load() {
		return false
	}
	c.probe.passed() // the start counts as the first success
	s.history.addf("%s: term %d starts", c, term.Token())
	if c.running != nil {
		s.violate("%s: term %d starts although the work of term %d has not returned", c, term.Token(), c.running.token)
	}
	if term.Token() <= e.highest && s.o.Mode != TokensOnly {
		s.violate("%s: token %d is not above %d", c, term.Token(), e.highest)
	}
	e.terms++
	e.highest = max(e.highest, term.Token())
	c.running = &sideTerm{token: term.Token(), seq: c.claimSeq, grant: *c.granted.Load(), claimSent: c.claimSent}
	s.lookBeside(e)
	return true
}

func (c *side) finish() {
	c.proc.sim.mu.Lock()
	defer c.proc.sim.mu.Unlock()
	c.running = nil
}

// leading is who leads an election beside right now. s.mu is held.
func (s *Sim) leading(e *beside) (all []*side) {
	for _, p := range s.procs {
		for _, c := range p.sides {
			if c.election == e && p.counts() && c.e.IsLeader() {
				all = append(all, c)
			}
		}
	}
	return all
}

// lookBeside checks that at most one term is valid, that a majority of the nodes holds its lock, and that it is
// valid until its deadline at most. s.mu is held.
func (s *Sim) lookBeside(e *beside) {
	if s.o.Mode == TokensOnly {
		return
	}
	leading, excused := s.leading(e), false
	for _, c := range leading {
		r := c.running
		if r == nil {
			continue
		}
		excused = excused || s.allForgot() && s.wasYoung(c.proc, r.claimSent)
		s.backed(c, r.token, e.keys, c.prefix)
		if late := time.Since(r.grant.TrueDeadline()); late > s.slack() {
			s.violate("%s: term %d is valid %v after its deadline", c, r.token, late)
		}
	}
	if len(leading) > 1 && !excused {
		s.violate("%d valid terms at once beside: %v", len(leading), leading)
	}
}

// onSide sees what a request is to do for an election beside. s.mu is held.
func (s *Sim) onSide(p *proc, d deed) {
	for _, c := range p.sides {
		if c.election.keys.Lock == d.lock {
			s.onSideDeed(c, d)
		}
	}
}

func (s *Sim) onSideDeed(c *side, d deed) {
	r := c.running
	switch d.kind {
	case claim:
		who, _, _ := strings.Cut(string(d.argv[protocol.ClaimValue]), " ")
		c.prefix = who[:strings.LastIndexByte(who, '/')+1]
		if seq := number(d.argv[protocol.ClaimSeq]); seq > c.claimSeq {
			c.claimSent, c.claimSeq = time.Now(), seq
		}
		if s.o.Mode == WallHints {
			bendHint(d.argv[protocol.ClaimHint], time.Duration(c.proc.warp.Wall.Load()))
		}
	case renewal:
		s.fresh(c.proc, c.election.name, c.probe)
		if token := number(d.argv[protocol.RenewToken]); r != nil && r.token == token {
			if late := time.Since(r.grant.TrueDeadline()); late > s.slack() {
				s.violate("%s sends a renewal of term %d %v after its deadline", c, token, late)
			}
		}
	case release:
		if r != nil && number(d.argv[protocol.ReleaseSeq]) >= r.seq {
			s.violate("%s releases the lock although the work of term %d runs", c, r.token)
		}
	}
}

// scheduleBeside draws what happens to one election of a process, and not to the others.
func (s *Sim) scheduleBeside(end time.Duration) []step {
	if len(s.beside) == 0 {
		return nil
	}
	p := &planner{sim: s, rng: rand.New(rand.NewPCG(s.o.Seed, 11))}
	for p.at = p.upTo(4 * s.t.lease); p.at < end; p.at += p.upTo(4 * s.t.lease) {
		who, i := p.rng.IntN(len(s.hosts)), p.rng.IntN(len(s.beside))
		if p.rng.IntN(3) == 0 {
			p.kind = "resignation beside"
			p.add(func(s *Sim) { s.resignBeside(i) }, "the leader of %s resigns", s.beside[i].name)
			continue
		}
		mode, d := p.rng.Int32N(probeModes), p.span()
		var hit *probe
		p.kind = "probe beside is " + probeWords[mode]
		p.add(func(s *Sim) {
			hit = s.hosts[who].proc.Load().sides[i].probe
			hit.set(mode)
		}, "%s: probe in %s to mode %d", name(who), s.beside[i].name, mode)
		p.later(d, func(*Sim) { hit.set(passing) }, "%s: probe in %s passes again", name(who), s.beside[i].name)
	}
	return p.steps
}

func (s *Sim) resignBeside(i int) {
	s.mu.Lock()
	leading := s.leading(s.beside[i])
	s.mu.Unlock()
	for _, c := range leading {
		s.extra.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 5*s.t.lease)
			defer cancel()
			_ = c.e.Resign(ctx)
		})
	}
}

// besidesLead waits until each election beside has a leader. No fault is under way.
func (s *Sim) besidesLead(within time.Duration) {
	for end := time.Now().Add(within); ; s.until(time.Now().Add(s.t.lease / 200)) {
		vacant := s.vacantBeside()
		if vacant == "" {
			return
		}
		if time.Now().After(end) {
			s.fault("no leader in %s after %v", vacant, within)
			return
		}
	}
}

// vacantBeside is an election beside without a leader; "" when each has one.
func (s *Sim) vacantBeside() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.beside {
		if len(s.leading(e)) == 0 {
			return e.name
		}
	}
	return ""
}

// besideTerms is how many terms each election beside has had.
func (s *Sim) besideTerms() (all []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.beside {
		all = append(all, e.terms)
	}
	return all
}

// reportBeside is what came of the elections beside. If none has met another, nothing was shown. s.mu is held.
func (s *Sim) reportBeside() (batches, terms int) {
	for _, n := range s.batches {
		batches += n
	}
	for _, e := range s.beside {
		terms += e.terms
	}
	if s.batches[renewal] == 0 && terms > 2 {
		s.violate("no renewals of two elections have travelled together")
	}
	return batches, terms
}
