package simtest

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/lease"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// record is a term as the checker knows it. Its fields are under Sim.mu.
type record struct {
	proc      *proc
	term      *elector.Term
	grant     lease.Held // its lease
	token     uint64
	claim     sent // that won it
	mode      atomic.Int32
	start     time.Time
	cancelled time.Time // when the work's context ended
}

// slack is what timers and bent clocks may cost beyond a deadline.
func (s *Sim) slack() time.Duration { return s.t.lease/100 + time.Millisecond }

// counts reports whether a process can act right now.
func (p *proc) counts() bool { return p.paused.Load() == nil && !p.dead.Load() }

// begin notes the start of a term, at the instant when its work starts.
func (s *Sim) begin(p *proc, term *elector.Term) *record {
	if !s.lockFor(p) {
		return nil
	}
	defer s.mu.Unlock()
	p.work.passed() // the start counts as the first success
	r := &record{proc: p, term: term, grant: *p.granted.Load(), token: term.Token(), claim: p.claim, start: time.Now()}
	if !s.quiet {
		r.mode.Store(p.mode.Load())
	}
	s.history.addf("%s: term %d starts (work %d)", p.name, r.token, r.mode.Load())
	if p.running != nil {
		s.violate("%s: term %d starts although the work of term %d has not returned", p.name, r.token, p.running.token)
	}
	s.order(r)
	s.terms = append(s.terms, r)
	s.seen.Terms++
	p.running = r
	s.overlap("start of " + p.name)
	return r
}

// order checks that tokens grow in the order of the elections.
func (s *Sim) order(r *record) {
	for _, old := range s.terms {
		switch {
		case r.token == old.token:
			s.violate("%s: token %d was handed out before, to %s", r.proc.name, r.token, old.proc.name)
		case r.token > old.token:
		case s.o.Mode != TokensOnly || r.claim.at.After(old.start):
			s.violate("%s: token %d is lower than %d of %s, which led before", r.proc.name, r.token, old.token, old.proc.name)
		}
	}
}

// cancelled notes that the work's context has ended.
func (s *Sim) cancelled(r *record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.cancelled = time.Now()
	if r.proc.counts() && r.proc.e.Term() == r.term {
		s.violate("%s: term %d is valid although its context has ended", r.proc.name, r.token)
	}
}

// finish notes that the work returned.
func (s *Sim) finish(r *record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.proc.running = nil
}

// overlap checks that at most one term is valid right now. s.mu is held.
func (s *Sim) overlap(when string) {
	if s.group != nil {
		for i := range s.group.shards {
			s.lookShard(i, when)
		}
		return
	}
	if s.o.Mode == TokensOnly {
		return
	}
	if valid := s.valid(); len(valid) > 1 && !s.mayOverlap(valid...) {
		s.violate("%d valid terms at once (%s): %v", len(valid), when, valid)
	}
}

// look checks everything that must hold at any instant. All goroutines are at
// rest.
func (s *Sim) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.overlap("step")
	now := time.Now()
	var open []*proc // whose work was not cancelled
	for _, p := range s.procs {
		r := p.running
		if !p.counts() {
			continue
		}
		if limit := s.stopLimit(); !p.stopped.IsZero() && now.Sub(p.stopped) > limit && (p.resumed.IsZero() || now.Sub(p.resumed) > limit) {
			s.violate("%s: Run has not returned %v after shutdown", p.name, now.Sub(p.stopped))
			p.stopped = now.Add(time.Hour) // said once
		}
		if r == nil || r.term.Context().Err() != nil {
			continue
		}
		open = append(open, p)
		if late := now.Sub(r.grant.TrueDeadline()); late > s.slack() {
			s.violate("%s: the work of term %d was not cancelled %v after its deadline", p.name, r.token, late)
		}
		if s.o.Mode != TokensOnly && p.e.IsLeader() {
			s.backed(p.name, r.token, s.keys, p.claim.prefix)
		}
	}
	if len(open) > 1 && s.o.Mode != TokensOnly && !s.mayOverlap(open...) {
		s.violate("the works of %d terms run at once, and none was cancelled", len(open))
	}
}

// stopLimit is how long Run may take to return: stubborn work, draining, the release, a probe that is left behind. A
// member stops its shards first, and then leaves.
func (s *Sim) stopLimit() time.Duration {
	if s.group != nil {
		return 10 * s.t.lease
	}
	return 5 * s.t.lease
}

// backed checks that a majority of the nodes stands behind a valid term: holds
// its lock, or abstains because it forgot.
func (s *Sim) backed(who string, token uint64, keys protocol.Keys, prefix string) {
	votes := 0
	for _, n := range s.nodes {
		if n.holds(keys, prefix) || !n.forgot.IsZero() && time.Since(n.forgot) < s.t.lease {
			votes++
		}
	}
	if votes < len(s.nodes)/2+1 {
		s.violate("%s: term %d is valid, but only %d of %d nodes hold its lock", who, token, votes, len(s.nodes))
	}
}

// mayOverlap reports whether two valid terms are within the documented exception: all
// nodes have forgotten within a lease (a leader that reached one of them since has its
// lock there), and one of the two began to campaign less than a lease before it
// claimed. s.mu is held.
func (s *Sim) mayOverlap(ps ...*proc) bool {
	return s.allForgot() && slices.ContainsFunc(ps, func(p *proc) bool {
		return p.running != nil && s.wasYoung(p, p.running.claim.at)
	})
}

func (s *Sim) wasYoung(p *proc, claimSent time.Time) bool {
	return claimSent.Sub(p.born) <= s.t.lease+s.slack()
}

// allForgot reports whether all nodes have forgotten within a lease. s.mu is held.
func (s *Sim) allForgot() bool {
	return !slices.ContainsFunc(s.nodes, func(n *node) bool {
		return n.forgot.IsZero() || time.Since(n.forgot) > s.t.lease+s.slack()
	})
}

// valid is who leads right now. s.mu is held.
func (s *Sim) valid() (ps []*proc) {
	for _, p := range s.procs {
		if p.counts() && p.e.IsLeader() {
			ps = append(ps, p)
		}
	}
	return ps
}
