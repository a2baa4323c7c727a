package simtest

import (
	"context"
	"slices"
	"testing/synctest"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// settle heals everything and checks that the election is alive.
func (s *Sim) settle() {
	s.history.addf("--- quiet")
	s.healAll()
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
	s.mu.Lock()
	s.recovered = time.Since(began)
	s.mu.Unlock()
	s.besidesLead(s.recoveryLimit())

	// The longest rest: a cool-down doubles up to 16 times. And then nothing may
	// shake the leader.
	s.until(time.Now().Add(4*s.t.lease + 17*s.t.cooldown))
	leader, terms, beside := s.leader(), s.count(), s.besideTerms()
	s.until(time.Now().Add(4 * s.t.lease))
	if now := s.leader(); now != leader || s.count() != terms || leader == nil {
		s.fault("the leadership is not stable without any fault: %v, then %v", leader, now)
	}
	if now := s.besideTerms(); !slices.Equal(now, beside) {
		s.fault("the leadership of the elections beside is not stable without any fault: terms %v, then %v", beside, now)
	}
	s.agree()
	s.aware(leader)
	s.retire()
}

// recoveryLimit is how long an election may take: the lease, the spread of the
// claims, and the wait for an heir that is gone.
func (s *Sim) recoveryLimit() time.Duration {
	limit := s.t.lease*105/100 + s.t.lease/8
	if s.succession != elector.SuccessionRace {
		limit += s.t.lease / 4
	}
	return limit
}

func (s *Sim) healAll() {
	s.mu.Lock()
	s.quiet = true
	procs := append([]*proc(nil), s.born...) // a straggler of a finished one may still wait for its resume
	s.mu.Unlock()
	for _, n := range s.nodes {
		if !n.up {
			s.restart(n, false)
		}
		n.redis.SetError("")
	}
	for _, h := range s.hosts {
		s.heal(h.links, s.chance(2) == 0)
	}
	s.net.change(func() {
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
	for _, p := range s.procs {
		if p.counts() && p.running != nil && p.e.IsLeader() {
			return p
		}
	}
	return nil
}

func (s *Sim) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.terms)
}

func (s *Sim) awaitLeader(within time.Duration) bool {
	for end := time.Now().Add(within); time.Now().Before(end) && !s.found(); { // then time stands still
		if s.leader() != nil {
			return true
		}
		s.until(time.Now().Add(s.t.lease / 200))
	}
	return s.leader() != nil
}

// awaitDrained waits for work that continues although its context has ended: its
// lease is kept meanwhile, or lapses.
func (s *Sim) awaitDrained() {
	for end := time.Now().Add(4 * s.t.lease); time.Now().Before(end) && !s.found(); {
		draining := false
		s.mu.Lock()
		for _, p := range s.procs {
			draining = draining || p.running != nil && !p.running.cancelled.IsZero()
		}
		s.mu.Unlock()
		if !draining {
			return
		}
		s.until(time.Now().Add(s.t.lease / 200))
	}
}

func (s *Sim) fault(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.violate(format, args...)
}

// maxIdle is more connections than a candidate leaves idle to one node.
const maxIdle = 4

// agree checks with every candidate who leads, and whether it can campaign.
func (s *Sim) agree() {
	leader := s.leader()
	if leader == nil {
		return
	}
	s.mu.Lock()
	procs, token := append([]*proc(nil), s.procs...), leader.running.token
	s.mu.Unlock()
	for _, p := range procs {
		got, err := p.e.Election().Leader(context.Background())
		// go-redis looks at a socket before it uses it, and can't look at these connections:
		// one that was reset while it was idle, below others in the pool, fails here.
		for range maxIdle {
			if err == nil {
				break
			}
			got, err = p.e.Election().Leader(context.Background())
		}
		if err != nil || got.Candidate != leader.name || got.Token != token && s.o.Strict {
			s.fault("%s believes that %+v leads (%v), it is %s with token %d", p.name, got, err, leader.name, token)
		}
		if err := p.e.Check(); err != nil {
			s.fault("%s: Check says %v although everything is well", p.name, err)
		}
	}
}

// retire shuts the leader down again and again: each time another candidate
// must take over, so none of them has got stuck.
func (s *Sim) retire() {
	for {
		p := s.leader()
		if p == nil {
			break
		}
		s.history.addf("%s retires", p.name)
		s.mu.Lock()
		s.retiring = true
		if s.chance(2) == 0 && p.running != nil {
			p.running.mode.Store(draining)
		}
		s.mu.Unlock()
		s.mu.Lock()
		old := p.running
		s.mu.Unlock()
		died := s.o.Deploys && s.mayFollow(p) && s.deathRng.IntN(3) == 0
		if died {
			s.perish(p)
		}
		s.halt(p)
		began := time.Now()
		s.awaitDone(p)
		released := time.Now()
		s.mu.Lock()
		left := len(s.procs)
		s.mu.Unlock()
		if left == 0 {
			return
		}
		if !s.awaitLeader(s.handoverLimit()) {
			s.fault("no leader %v after %s had released the lock, with %d candidates left", time.Since(released), p.name, left)
		}
		if !s.awaitLeader(s.recoveryLimit()) {
			s.fault("no leader %v after %s retired, with %d candidates left", time.Since(began), p.name, left)
			break
		}
		s.besidesLead(s.handoverLimit())
		if next := s.awaitSettled(); next != nil {
			if !died {
				s.informed(old, next)
			}
			s.aware(next)
		}
	}
	s.halted()
}

// awaitSettled waits until the leader stays the same: a new one may still hand over to another with a
// higher priority, once that one is warm, and then rests for its cool-down. It returns the leader, which
// has led for a quarter of a lease, since an observer lags by some milliseconds; nil: there is none.
func (s *Sim) awaitSettled() *proc {
	leader, stays := s.leader(), s.t.lease/4
	if s.succession == elector.SuccessionPriority {
		stays += max(s.t.warmTimeout, s.t.cooldown)
	}
	since := time.Now()
	for end := since.Add(8 * s.t.lease); time.Since(since) < stays && time.Now().Before(end) && !s.found(); {
		s.until(time.Now().Add(s.t.lease / 200))
		if now := s.leader(); now != leader {
			leader, since = now, time.Now()
		}
	}
	return leader
}

// handoverLimit is how long after a release no candidate may lead, whatever messages are
// forged: a claim that one of them caused in vain is not repeated for a sixteenth of a
// lease. An heir is waited for a quarter.
func (s *Sim) handoverLimit() time.Duration {
	limit := s.t.lease/8 + 50*time.Millisecond
	if s.succession != elector.SuccessionRace {
		limit += s.t.lease * 3 / 10
	}
	return limit
}

// halted ends all processes that are left.
func (s *Sim) halted() {
	s.mu.Lock()
	procs := append([]*proc(nil), s.procs...)
	s.mu.Unlock()
	for _, p := range procs {
		s.halt(p)
	}
	for _, p := range procs {
		<-p.done
	}
	s.extra.Wait() // of a restart that was under way
	s.mu.Lock()
	late := append([]*proc(nil), s.procs...)
	s.mu.Unlock()
	for _, p := range late {
		s.halt(p)
		<-p.done
	}
}

func (s *Sim) awaitDone(p *proc) {
	limit := time.Now().Add(6 * s.t.lease)
	for {
		select {
		case <-p.done:
			return
		default:
		}
		if s.found() { // time stands still
			<-p.done
			return
		}
		if time.Now().After(limit) {
			s.fault("%s: Run has not returned %v after shutdown, without any fault", p.name, 6*s.t.lease)
			<-p.done
			return
		}
		s.until(time.Now().Add(s.t.lease / 200))
	}
}
