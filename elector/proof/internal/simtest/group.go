package simtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/lease"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/testredis"
	"github.com/mandate-dev/mandate/elector/shard"
	"github.com/mandate-dev/mandate/health"
)

// group is a group of shards: the hosts run members instead of candidates. Each shard is an election, and those of
// one process share their calls: what is checked is that no election takes another's answer, probe or lease. Fields are
// under Sim.mu.
type group struct {
	shards []shardState
	lock   map[string]int // the lock's key: the shard
}

// shardState is a shard as the checker knows it.
type shardState struct {
	keys    protocol.Keys
	highest uint64 // token
}

// membership is a process as a member of the group.
type membership struct {
	stuck atomic.Int64 // the shard whose work probe fails; -1: none

	// under Sim.mu
	owned  map[int]*ownTerm
	claims map[int]*sent
}

// ownTerm is a term of a member whose work runs.
type ownTerm struct {
	*shard.Term
	claim sent // that won it
}

func newGroup(shards int) *group {
	g := &group{lock: map[string]int{}}
	for i := range shards {
		keys := protocol.KeysOf("mandate", shard.ElectionOf(election, i))
		g.lock[keys.Lock] = i
		g.shards = append(g.shards, shardState{keys: keys})
	}
	return g
}

// enter starts the process as a member.
func (p *proc) enter(q *elector.Quorum) {
	s := p.sim
	p.member = &membership{owned: map[int]*ownTerm{}, claims: map[int]*sent{}}
	p.member.stuck.Store(-1)
	m, err := shard.New(q, shard.Config{
		Group: election, Shards: len(s.group.shards), ID: p.name, Advertise: advertised(p.name), Lease: s.t.lease, Cooldown: s.t.cooldown,
		Logger: s.history.logger(), Probe: p.probe, ProbeSettings: s.probeSettings(), WorkProbe: p.shardProbe, WorkProbeSettings: s.probeSettings(),
	})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(lease.WithClock(context.Background(), lease.ClockOf(p.warp, func(lease.Held) {})))
	p.stop = cancel
	p.start(func() {
		err := m.Run(ctx, p.own)
		s.history.addf("%s: Run returned: %v", p.name, err)
		s.ranOut(ctx, p, err)
		_ = q.Close()
	})
}

func (p *proc) shardProbe(shard int) health.Probe {
	return health.Func(func(context.Context) error {
		p.gate()
		if p.member.stuck.Load() == int64(shard) {
			return errProbe
		}
		return nil
	})
}

// own is the work of a term.
func (p *proc) own(ctx context.Context, term *shard.Term) error {
	s := p.sim
	if !s.beginShard(p, term) {
		<-ctx.Done() // a dead process: it is not observed
		return nil
	}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(p.member.owned, term.Shard)
	}()
	<-ctx.Done()
	if s.chance(4) == 0 {
		time.Sleep(s.share(s.t.stopMargin * 9 / 10))
	}
	p.gate()
	return nil
}

// beginShard notes the start of a term, and checks that tokens grow.
func (s *Sim) beginShard(p *proc, term *shard.Term) bool {
	if !s.lockFor(p) {
		return false
	}
	defer s.mu.Unlock()
	st := &s.group.shards[term.Shard]
	s.history.addf("%s: term %d of shard %d starts", p.name, term.Token(), term.Shard)
	if old := p.member.owned[term.Shard]; old != nil {
		s.violate("%s: term %d of shard %d starts although the work of term %d has not returned", p.name, term.Token(), term.Shard, old.Token())
	}
	if term.Token() <= st.highest && s.o.Mode != TokensOnly {
		s.violate("%s: token %d of shard %d is not above %d", p.name, term.Token(), term.Shard, st.highest)
	}
	st.highest = max(st.highest, term.Token())
	s.seen.Terms++
	p.member.owned[term.Shard] = &ownTerm{term, *p.member.claims[term.Shard]}
	s.lookShard(term.Shard, "start of "+p.name)
	return true
}

// owners is who owns a shard right now. s.mu is held.
func (s *Sim) owners(i int) (all []*proc) {
	for _, p := range s.procs {
		if t := p.member.owned[i]; t != nil && p.counts() && t.Valid() {
			all = append(all, p)
		}
	}
	return all
}

// lookShard checks that a shard has at most one valid owner, and that a majority of the nodes holds its lock. s.mu is
// held.
func (s *Sim) lookShard(i int, when string) {
	if s.o.Mode == TokensOnly {
		return
	}
	all, excused := s.owners(i), false
	for _, p := range all {
		t := p.member.owned[i]
		excused = excused || s.allForgot() && s.wasYoung(p, t.claim.at) // the member, however late it was given the shard
		s.backed(fmt.Sprintf("%s in shard %d", p.name, i), t.Token(), s.group.shards[i].keys, t.claim.prefix)
	}
	if len(all) > 1 && !excused {
		s.violate("%d valid owners of shard %d at once (%s): %v", len(all), i, when, all)
	}
}

// onShard sees what a request is to do for a shard. s.mu is held.
func (s *Sim) onShard(p *proc, d deed) {
	i, ok := s.group.lock[d.lock]
	switch {
	case d.script == testredis.ScriptClaim:
		c := p.member.claims[i]
		if c == nil || !ok { // the assigner's election is none of a shard
			c = &sent{}
		}
		if ok {
			p.member.claims[i] = c
		}
		s.onClaim(p, c, d)
	case d.ends() && ok:
		t := p.member.owned[i]
		if t != nil && number(d.arg("seq")) >= t.claim.seq && strings.HasSuffix(t.claim.prefix, "/"+string(d.arg("incarnation"))+"/") {
			s.violate("%s releases shard %d although the work of term %d runs", p.name, i, t.Token())
		}
	case d.script == testredis.ScriptRenew && ok: // an assigner may be unhealthy
		s.fresh(p, "member", p.probe, s.freshness()+s.t.lease/8) // its candidates read the verdict that often
	}
}

// stick has the work of one shard of a member fail its probe for a while.
func (p *planner) stick() {
	who, shard := p.whom(), p.rng.IntN(len(p.sim.group.shards))
	var hit *proc
	p.add(func(s *Sim) {
		hit = s.find(who).proc.Load()
		hit.member.stuck.Store(int64(shard))
	}, "%s: the probe of shard %d fails", name(who), shard)
	p.later(p.span(), func(*Sim) { hit.member.stuck.Store(-1) }, "%s: the probes of all shards pass", name(who))
}

// assigner is the host of the assigner, or else the first one.
func (s *Sim) assigner() *host {
	lock := protocol.KeysOf("mandate", election+"#assigner").Lock
	for _, n := range s.nodes {
		value, err := n.Server().Get(lock)
		if err != nil {
			continue
		}
		id, _, _ := strings.Cut(value, "/")
		if i := slices.IndexFunc(s.hosts, func(h *host) bool { return h.proc.Load().name == id }); i >= 0 {
			return s.hosts[i]
		}
	}
	return s.hosts[0]
}

// settleGroup checks that each shard gets an owner, after the longest rest: a cool-down doubles up to 16 times.
func (s *Sim) settleGroup() {
	began, limit := time.Now(), 4*s.t.lease+17*s.t.cooldown
	if !s.await(limit, func() bool { return s.vacant() == 0 }) {
		n := s.vacant()
		s.fault("%d of %d shards have no owner %v after the faults ended", n, len(s.group.shards), limit)
	}
	s.seen.Recovery = time.Since(began)
}

// vacant is how many shards have no owner.
func (s *Sim) vacant() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.group.shards {
		if len(s.owners(i)) == 0 {
			n++
		}
	}
	return n
}
