package simtest

import (
	"context"
	"slices"
	"strings"
	"testing/synctest"
	"time"
)

// settle checks that the election is alive once all faults are healed.
func (s *Sim) settle() {
	s.forging.Store(true)
	fresh := s.newHost(len(s.hosts), 0)
	s.hosts = append(s.hosts, fresh)
	fresh.boot("fresh")

	// A healthy majority and a healthy candidate: a leader within the lease and
	// a little.
	s.awaitDrained()
	began := time.Now()
	if !s.awaitLeader(s.recoveryLimit()) {
		s.fault("no leader %v after the faults ended", time.Since(began))
		s.awaitLeader(20 * s.t.lease)
	}
	s.seen.Recovery = time.Since(began)

	// The longest rest: a cool-down doubles up to 16 times. And then nothing may
	// shake the leader.
	s.until(time.Now().Add(4*s.t.lease + 17*s.t.cooldown))
	leader, terms := s.leader(), s.count()
	s.until(time.Now().Add(4 * s.t.lease))
	if now := s.leader(); now != leader || s.count() != terms || leader == nil {
		s.fault("the leadership is not stable without any fault: %v, then %v", leader, now)
		return
	}
	s.agree(leader)
	s.retire()
}

// recoveryLimit is how long an election may take: the lease, the spread of the
// claims, and the wait for an heir that is gone.
func (s *Sim) recoveryLimit() time.Duration {
	limit := s.t.lease*105/100 + s.t.lease/8
	if s.succession != "" {
		limit += s.t.lease / 4
	}
	return limit
}

// handoverLimit is how long after a release no candidate may lead, whatever messages are
// forged: a claim that one of them caused in vain is not repeated for a sixteenth of a
// lease. An heir is waited for a quarter.
func (s *Sim) handoverLimit() time.Duration {
	limit := s.t.lease/8 + 50*time.Millisecond
	if s.succession != "" {
		limit += s.t.lease * 3 / 10
	}
	return limit
}

func (s *Sim) healAll() {
	s.history.addf("--- quiet")
	s.mu.Lock()
	s.quiet = true
	procs := append([]*proc(nil), s.born...) // a straggler of a finished one may still wait for its resume
	s.mu.Unlock()
	for _, n := range s.nodes {
		if !n.up {
			s.restart(n, false)
		}
		n.RefuseWith("")
	}
	for _, h := range s.hosts {
		s.heal(h.links, s.chance(2) == 0)
	}
	s.change(func() {
		for _, n := range s.nodes {
			n.hung = false
		}
	})
	for _, p := range procs {
		p.resume(0)
		p.pass()
		p.mode.Store(prompt)
	}
	synctest.Wait()
	s.look()
}

// leader is who leads right now, nil when none does.
func (s *Sim) leader() *proc {
	s.mu.Lock()
	defer s.mu.Unlock()
	leading := slices.DeleteFunc(s.valid(), func(p *proc) bool { return p.running == nil })
	return append(leading, nil)[0]
}

func (s *Sim) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.terms)
}

// await lets time pass until ok.
func (s *Sim) await(within time.Duration, ok func() bool) bool {
	for end := time.Now().Add(within); !ok() && time.Now().Before(end) && !s.found(); { // once found, time stands still
		s.until(time.Now().Add(s.t.lease / 200))
	}
	return ok()
}

func (s *Sim) awaitLeader(within time.Duration) bool {
	return s.await(within, func() bool { return s.leader() != nil })
}

// awaitDrained waits for work that continues although its context has ended: its
// lease is kept meanwhile, or lapses.
func (s *Sim) awaitDrained() {
	s.await(4*s.t.lease, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return !slices.ContainsFunc(s.procs, func(p *proc) bool { return p.running != nil && !p.running.cancelled.IsZero() })
	})
}

// maxIdle is more connections than a candidate leaves idle to one node.
const maxIdle = 4

// agree checks with every candidate who leads, whether it can campaign, and whom it has observed.
func (s *Sim) agree(leader *proc) {
	s.mu.Lock()
	procs, token := append([]*proc(nil), s.procs...), leader.running.token
	s.mu.Unlock()
	for _, p := range procs {
		got, err := p.e.Election().Leader(context.Background())
		// go-redis looks at a socket before it uses it, and can't look at these connections:
		// one that was reset while it was idle, below others in the pool, fails here.
		for i := 0; err != nil && i < maxIdle; i++ {
			got, err = p.e.Election().Leader(context.Background())
		}
		if err != nil || got.Candidate != leader.name {
			s.fault("%s believes that %+v leads (%v), it is %s with token %d", p.name, got, err, leader.name, token)
		}
		if err := p.e.Check(); err != nil && !strings.Contains(err.Error(), "resting") {
			s.fault("%s: Check says %v although everything is well", p.name, err)
		}
		s.aware(p, leader.name, token)
	}
}

// retire shuts the leader down again and again: each time another candidate
// must take over, so none of them has got stuck.
func (s *Sim) retire() {
	for p := s.leader(); p != nil && !s.found(); p = s.leader() {
		s.history.addf("%s retires", p.name)
		if s.chance(2) == 0 {
			p.running.mode.Store(draining)
		}
		s.halt(p)
		if !s.await(6*s.t.lease, p.isDone) && !s.found() {
			s.fault("%s: Run has not returned %v after shutdown, without any fault", p.name, 6*s.t.lease)
			return
		}
		s.mu.Lock()
		left := len(s.procs)
		s.mu.Unlock()
		if left > 0 && !s.awaitLeader(s.handoverLimit()) {
			s.fault("no leader %v after %s had released the lock, with %d candidates left", s.handoverLimit(), p.name, left)
			return
		}
	}
}

func (p *proc) isDone() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// halted ends all processes that are left, and those that restarts under way begin.
func (s *Sim) halted() {
	for range 2 {
		s.mu.Lock()
		procs := append([]*proc(nil), s.procs...)
		s.mu.Unlock()
		for _, p := range procs {
			s.halt(p)
		}
		for _, p := range procs {
			<-p.done
		}
		s.extra.Wait()
	}
}
