package simtest

import (
	"slices"
	"strings"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
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
			s.onDeed(p, d.kind, d.argv)
		} else {
			s.onSide(p, d)
		}
	}
	if len(all) > 1 {
		s.batches[all[0].kind]++
	}
}

// onDeed sees what a request is to do for one election. s.mu is held.
func (s *Sim) onDeed(p *proc, k kind, argv [][]byte) {
	switch k {
	case claim:
		value := string(argv[protocol.ClaimValue])
		who, _, _ := strings.Cut(value, " ")
		p.prefix = who[:strings.LastIndexByte(who, '/')+1]
		// A claim is sent when its first request is: that to a node that hung may follow
		// much later, when another candidate has begun to lead.
		if seq := number(argv[protocol.ClaimSeq]); seq > p.claimSeq {
			p.claimSent, p.claimSeq, p.floors = time.Now(), seq, s.floors()
		}
		if s.o.Mode == WallHints {
			bendHint(argv[protocol.ClaimHint], time.Duration(p.warp.Wall.Load()))
		}
	case renewal:
		s.renewals++
		s.timely(p, number(argv[protocol.RenewToken]))
		s.fresh(p, "candidate", p.probe)
		s.fresh(p, "work", p.work)
	case release:
		// The release of an earlier term may have waited for its turn on a slow way.
		if r := p.running; r != nil && number(argv[protocol.ReleaseSeq]) >= r.seq {
			s.violate("%s releases the lock (attempt %d) although the work of term %d (attempt %d) runs", p.name, number(argv[protocol.ReleaseSeq]), r.token, r.seq)
		}
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

// fresh checks that a renewal has a fresh pass of the probe behind it. The
// request may have waited for its turn for one call time-out; and a process can
// be paused between asking its probes and sending.
func (s *Sim) fresh(p *proc, which string, pr *probe) {
	if !s.o.Strict && (!p.counts() || !p.resumed.IsZero() && time.Since(p.resumed) <= s.t.callTimeout) {
		return
	}
	if age := time.Since(pr.lastPass()); age > s.freshness()+s.t.callTimeout+time.Millisecond {
		s.violate("%s renews although its %s probe last passed %v ago (bound %v)", p.name, which, age, s.freshness())
	}
}
