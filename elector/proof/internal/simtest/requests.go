package simtest

import (
	"slices"
	"strings"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/testredis"
)

// onCommand sees every request at the moment when a process sends it.
func (s *Sim) onCommand(p *proc, c command) {
	all := c.elections()
	if len(all) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.dead.Load() {
		return
	}
	for _, d := range all {
		if s.group != nil {
			s.onShard(p, d)
		} else if d.lock == s.keys.Lock {
			s.onDeed(p, d)
		}
	}
	if len(all) > 1 {
		s.batches++
	}
}

// onDeed sees what a request is to do for the election. s.mu is held.
func (s *Sim) onDeed(p *proc, d deed) {
	switch {
	case d.script == testredis.ScriptClaim:
		s.onClaim(p, &p.claim, d)
	case d.script == testredis.ScriptRenew:
		s.seen.Renewals++
		s.timely(p, number(d.arg("token")))
		s.fresh(p, "candidate", p.probe, s.freshness())
		s.fresh(p, "work", p.work, s.freshness())
	case d.ends():
		// The release of an earlier term may have waited for its turn on a slow way.
		if r := p.running; r != nil && number(d.arg("seq")) >= r.claim.seq {
			s.violate("%s releases the lock although the work of term %d (attempt %d) runs", p.name, r.token, r.claim.seq)
		}
	}
}

// sent is the newest claim that a process has sent in an election. A claim is sent when its first request is: that to
// a node that hung may follow much later, when another candidate has begun to lead.
type sent struct {
	prefix string // of its lock values: <candidate>/<incarnation>/
	at     time.Time
	seq    uint64
}

func (s *Sim) onClaim(p *proc, newest *sent, d deed) {
	who, _, _ := strings.Cut(string(d.arg("value")), " ")
	prefix := who[:strings.LastIndexByte(who, '/')+1]
	if seq := number(d.arg("seq")); prefix != newest.prefix || seq > newest.seq {
		*newest = sent{prefix, time.Now(), seq}
	}
	if s.o.Mode == WallHints {
		bendClock(d.arg("clock"), time.Duration(p.warp.Wall.Load()))
	}
}

// timely checks that no renewal is sent after the deadline of its term.
func (s *Sim) timely(p *proc, token uint64) {
	for _, r := range slices.Backward(s.terms) {
		if r.proc != p || r.token != token {
			continue
		}
		if late := time.Since(r.grant.TrueDeadline()); late > s.slack() {
			s.violate("%s sends a renewal of term %d %v after its deadline", p.name, token, late)
		}
		return
	}
}

// fresh checks that a renewal has a pass of the probe behind it that is not older than the bound. The
// request may have waited for its turn for one call time-out; and a process can
// be paused between asking its probes and sending.
func (s *Sim) fresh(p *proc, which string, pr *probe, bound time.Duration) {
	if !p.counts() || !p.resumed.IsZero() && time.Since(p.resumed) <= s.t.callTimeout {
		return
	}
	if age := time.Since(pr.lastPass()); age > bound+s.t.callTimeout+time.Millisecond {
		s.violate("%s renews although its %s probe last passed %v ago (bound %v)", p.name, which, age, bound)
	}
}
