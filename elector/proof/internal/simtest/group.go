package simtest

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/lease"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/shard"
	"github.com/mandate-dev/mandate/health"
)

// group is the simulation of a group of shards: the hosts run members instead of candidates.
// Fields are under Sim.mu, but for those that never change.
type group struct {
	shards  int
	members int
	faulty  bool           // work and probes fail, too: members then leave shards to each other
	lock    map[string]int // the lock's key: the shard

	by      []shardState
	terms   int
	moved   int         // terms that ended as they were handed over
	most    int         // shards that were moving at one time, in the quiet end
	old     string      // a plan that once stood on a node; of the goroutine of run
	settled atomic.Bool // nothing changes but what the quiet end does
}

// shardState is a shard as the checker knows it.
type shardState struct {
	keys    protocol.Keys
	highest uint64 // token
	terms   int
	moving  bool // its last term ended by a handover, and no term has begun since
}

// ownTerm is a term of a member whose work runs. Fields are under Sim.mu.
type ownTerm struct {
	proc      *proc
	term      *shard.Term
	claimSent time.Time
	start     time.Time
	mode      int32
}

// membership is a process as a member of the group.
type membership struct {
	m     *shard.Member
	stuck atomic.Int64 // the shard whose work probe fails, and whose work does not return; -1: none

	// under Sim.mu
	owned  map[int]*ownTerm
	claims map[int]*sent
}

// sent is what a process has claimed of a shard.
type sent struct {
	prefix string // of its lock values
	at     time.Time
	seq    uint64
}

func newGroup(members, shards int, faulty bool) *group {
	g := &group{shards: shards, members: members, faulty: faulty, lock: map[string]int{}, by: make([]shardState, shards)}
	for i := range g.by {
		g.by[i].keys = protocol.KeysOf("mandate", shard.ElectionOf(election, i))
		g.lock[g.by[i].keys.Lock] = i
	}
	return g
}

// enter starts the process as a member.
func (p *proc) enter(q *elector.Quorum, clients []redis.UniversalClient) *proc {
	s := p.sim
	ms := &membership{owned: map[int]*ownTerm{}, claims: map[int]*sent{}}
	ms.stuck.Store(-1)
	cfg := shard.Config{
		Group: election, Shards: s.group.shards, ID: p.name, Advertise: advertised(p.name), Lease: s.t.lease, Cooldown: s.t.cooldown,
		Moves: groupMoves, Logger: s.history.logger(), Probe: p.probe, ProbeSettings: s.probeSettings(),
		WorkProbe: func(shard int) health.Probe {
			return health.Func(func(context.Context) error {
				p.gate()
				if ms.stuck.Load() == int64(shard) {
					return errProbe
				}
				return nil
			})
		},
		WorkProbeSettings: s.probeSettings(),
	}
	var err error
	ms.m, err = shard.New(q, cfg)
	if err != nil {
		panic(err)
	}
	p.member = ms
	ctx, cancel := context.WithCancel(lease.WithClock(context.Background(), lease.ClockOf(p.warp, func(lease.Held) {})))
	p.stop = cancel
	s.mu.Lock()
	s.procs, s.born = append(s.procs, p), append(s.born, p)
	s.mu.Unlock()
	p.host.proc.Store(p)
	go func() {
		defer close(p.done)
		defer s.forget(p)
		err := ms.m.Run(ctx, p.own)
		s.history.addf("%s: Run returned: %v", p.name, err)
		if !endedWell(ctx, err) {
			s.fault("%s: Run returned %v (requested to end: %v)", p.name, err, ctx.Err() != nil)
		}
		_ = q.Close()
		for _, c := range clients {
			_ = c.Close()
		}
	}()
	return p
}

// groupMoves is the budget of moves at one time.
const groupMoves = 4

// own is the work of a term.
func (p *proc) own(ctx context.Context, term *shard.Term) error {
	s := p.sim
	t := s.beginShard(p, term)
	if t == nil {
		<-ctx.Done() // a dead process: it is not observed
		return nil
	}
	defer s.finishShard(t)
	// Not ctx: that one ends with the work, too, which may return before the term ends.
	context.AfterFunc(term.Context(), func() { s.endShard(t) })
	wait := ctx
	if t.mode == early || t.mode == broken {
		short, cancel := context.WithTimeout(ctx, s.share(3*s.t.lease))
		defer cancel()
		wait = short
	}
	<-wait.Done()
	p.gate()
	mode := s.modeOf(t)
	if ctx.Err() == nil && mode == broken {
		return errWork
	}
	switch mode {
	case lazy:
		time.Sleep(s.share(s.t.stopMargin * 9 / 10))
	case stubborn:
		time.Sleep(s.share(3 * s.t.lease))
	}
	for p.member.stuck.Load() == int64(term.Shard) {
		time.Sleep(s.t.lease / 40)
	}
	p.gate()
	return nil
}

// beginShard notes the start of a term, and checks that tokens grow.
func (s *Sim) beginShard(p *proc, term *shard.Term) *ownTerm {
	if !s.lockFor(p) {
		return nil
	}
	defer s.mu.Unlock()
	g, st := s.group, &s.group.by[term.Shard]
	s.history.addf("%s: term %d of shard %d starts", p.name, term.Token(), term.Shard)
	if old := p.member.owned[term.Shard]; old != nil {
		s.violate("%s: term %d of shard %d starts although the work of term %d has not returned", p.name, term.Token(), term.Shard, old.term.Token())
	}
	if term.Token() <= st.highest && s.o.Mode != TokensOnly {
		s.violate("%s: token %d of shard %d is not above %d", p.name, term.Token(), term.Shard, st.highest)
	}
	t := &ownTerm{proc: p, term: term, start: time.Now()}
	if c := p.member.claims[term.Shard]; c != nil {
		t.claimSent = c.at
	}
	if g.faulty && !s.quiet && s.chance(12) == 0 {
		t.mode = int32(s.chance(resignerMode))
	}
	g.terms++
	st.terms++
	st.highest, st.moving = max(st.highest, term.Token()), false
	p.member.owned[term.Shard] = t
	s.overlapOf(term.Shard, "start of "+p.name)
	return t
}

// modeOf is how the work behaves at its end. Once all faults have ended, a term that began before obeys, too: one that
// ignored its end for three leases would look like a shard that nobody may own.
func (s *Sim) modeOf(t *ownTerm) int32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.quiet {
		return prompt
	}
	return t.mode
}

// resignerMode is beyond the last mode of the work of a shard.
const resignerMode = int(resigner)

// endShard notes that the term's context has ended.
func (s *Sim) endShard(t *ownTerm) {
	s.mu.Lock()
	defer s.mu.Unlock()
	why := context.Cause(t.term.Context())
	ended, _ := why.(*elector.Ended) //nolint:errorlint // a term's cause is one, and no wrapped one
	if ended == nil {
		s.violate("%s: a term of shard %d ended with %v", t.proc.name, t.term.Shard, why)
		return
	}
	s.ends[string(ended.Reason)]++
	if ended.Reason == elector.ReasonHandover {
		s.group.moved++
		s.group.by[t.term.Shard].moving = true
		s.budget()
	}
	if t.proc.counts() && t.term.Valid() {
		s.violate("%s: term %d of shard %d is valid although its context has ended", t.proc.name, t.term.Token(), t.term.Shard)
	}
}

// finishShard notes that the work returned.
func (s *Sim) finishShard(t *ownTerm) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(t.proc.member.owned, t.term.Shard)
}

// onShard sees what a request is to do for a shard. s.mu is held.
func (s *Sim) onShard(p *proc, d deed) {
	i, ok := s.group.lock[d.lock]
	if d.kind == claim && s.o.Mode == WallHints {
		bendHint(d.argv[protocol.ClaimHint], time.Duration(p.warp.Wall.Load()))
	}
	if !ok || d.kind != claim {
		return
	}
	c := p.member.claims[i]
	if c == nil {
		c = &sent{}
		p.member.claims[i] = c
	}
	who, _, _ := strings.Cut(string(d.argv[protocol.ClaimValue]), " ")
	c.prefix = who[:strings.LastIndexByte(who, '/')+1]
	// Another candidacy of this member in the same shard counts from one again.
	if seq := number(d.argv[protocol.ClaimSeq]); seq > c.seq || seq == 1 {
		c.at, c.seq = time.Now(), seq
	}
}

// findMember is the host of the assigner, or else the first one.
func (s *Sim) findMember() *host {
	lock := protocol.KeysOf("mandate", election+"/assigner").Lock
	for _, n := range s.nodes {
		value, err := n.redis.Get(lock)
		if err != nil {
			continue
		}
		id, _, _ := strings.Cut(value, "/")
		for _, h := range s.hosts {
			if p := h.proc.Load(); p.name == id {
				return h
			}
		}
	}
	return s.hosts[0]
}

// beGroup makes the processes members of a group.
func (s *Sim) beGroup(rng *rand.Rand) {
	members := s.o.Members
	if members == 0 {
		members = 2 + rng.IntN(4)
	}
	s.t = timings(rng, max(s.t.lease, 500*time.Millisecond))
	s.t.stopMargin = s.t.lease / 4 // a member's is the default
	s.group = newGroup(members, s.o.Shards, rng.IntN(2) == 0)
}

// groupReport is what came of the shards. s.mu is held.
func (s *Sim) groupReport() (terms, moves int) {
	if s.group == nil {
		return 0, 0
	}
	return s.group.terms, s.group.moved
}
