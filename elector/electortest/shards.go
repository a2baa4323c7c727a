package electortest

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/shard"
	"github.com/mandate-dev/mandate/health"
)

// NewShardTerm is [NewTerm] for a test that calls the work of a shard itself, with no group
// and no Redis.
//
//	term, end := electortest.NewShardTerm(t, 3, 7) // shard 3, token 7
//	term.Shards = 12                               // of 12, for work that asks term.Has(key)
func NewShardTerm(t testing.TB, n int, token uint64) (term *shard.Term, end func(elector.Reason)) {
	t.Helper()
	inner, end := NewTerm(t, token)
	return &shard.Term{Term: inner, Shard: n}, end
}

// Peer is another member of a group, beside those that are tested.
type Peer struct {
	*shard.Member

	redis *Redis
	stop  context.CancelFunc
	ended chan struct{}

	mu     sync.Mutex
	probes map[int]*Probe
}

// Join starts a member whose work does nothing, on a host that is called as its ID: so
// [Redis.CutOff] cuts it off. It leaves when the test ends. A Config.WorkProbe of its own is
// replaced: see [Peer.Hang].
func (r *Redis) Join(cfg shard.Config) *Peer {
	r.t.Helper()
	p := &Peer{redis: r, ended: make(chan struct{}), probes: map[int]*Probe{}}
	cfg.WorkProbe = p.probe
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	m, err := shard.New(r.Quorum(cfg.ID), cfg)
	if err != nil {
		r.t.Fatalf("electortest: %v", err)
	}
	p.Member = m
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	go func() {
		defer close(p.ended)
		// One that is cut off, or killed, can't release its shards.
		if err := m.Run(ctx, idle); err != nil && !errors.Is(err, elector.ErrNotReleased) {
			r.t.Errorf("electortest: member %s: %v", m.ID(), err)
		}
	}()
	r.t.Cleanup(p.Leave)
	return p
}

func idle(ctx context.Context, _ *shard.Term) error {
	<-ctx.Done()
	return nil
}

// Leave makes the member hand its shards over, and returns when it has ended.
func (p *Peer) Leave() {
	p.stop()
	<-p.ended
}

// Kill makes the member vanish, as a process that is killed: nothing is released or handed over.
// Others own its shards when it has not been seen for half a lease and its leases have ended.
func (p *Peer) Kill() {
	p.redis.CutOff(p.ID())
	p.stop()
}

// Hang makes the work of a shard hang while this member owns it: its probe does not answer
// any more, so the shard goes to another member, and this one keeps the others.
func (p *Peer) Hang(n int) { p.of(n).Hang() }

// Pass ends that.
func (p *Peer) Pass(n int) { p.of(n).Pass() }

func (p *Peer) probe(n int) health.Probe { return p.of(n) }

func (p *Peer) of(n int) *Probe {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.probes[n] == nil {
		p.probes[n] = &Probe{}
	}
	return p.probes[n]
}

// Settle returns when every shard of a group has an owner and none is to move, as an operator
// would see it. The test fails when that takes more than ten minutes.
func (r *Redis) Settle(group string) shard.Status {
	r.t.Helper()
	q := r.Quorum("electortest")
	for limit := time.Now().Add(waitLimit); ; time.Sleep(settlePoll) {
		st, err := shard.Read(context.Background(), q, group)
		if err == nil && len(st.Unowned) == 0 && len(st.Moving) == 0 && isPlanned(st) {
			return st
		}
		if time.Now().After(limit) {
			r.t.Fatalf("electortest: the shards of %s do not settle: %d have no owner, %d move, %v", group, len(st.Unowned), len(st.Moving), err)
		}
	}
}

const settlePoll = 20 * time.Millisecond

// isPlanned reports whether the plan counts every member that wants shards: one that has just
// joined is to get some.
func isPlanned(st shard.Status) bool {
	for _, m := range st.Members {
		if m.Closed == "" && len(m.Planned) == 0 && st.Shards >= len(st.Members) {
			return false
		}
	}
	return true
}

// TakeShard takes the lease of a shard away from m, which must own it, as [Redis.TakeLease]
// does with an election's. It returns when m's term has ended; m owns the shard again after a
// lease.
func (r *Redis) TakeShard(m *shard.Member, n int) {
	r.t.Helper()
	term := m.Term(n)
	if term == nil {
		r.t.Fatalf("electortest: %s does not own shard %d of %s", m.ID(), n, m.Group())
	}
	r.takeLease(shard.ElectionOf(m.Group(), n), m.ID(), term.Term)
}
