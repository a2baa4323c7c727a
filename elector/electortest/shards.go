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

// Join starts a member whose work does nothing. Its host has the name of its ID, for
// [Redis.CutOff]. The member leaves when the test ends. Join replaces Config.WorkProbe: see
// [Peer.Hang].
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
		// A member that is cut off or killed can't release its shards.
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

// Leave makes the member hand its shards over, and returns when the member has stopped.
func (p *Peer) Leave() {
	p.stop()
	<-p.ended
}

// Kill makes the member vanish like a process that is killed: it releases nothing and hands
// nothing over. Other members own its shards once it was not seen for half a lease and its leases
// have expired.
func (p *Peer) Kill() {
	p.redis.CutOff(p.ID())
	p.stop()
}

// Hang makes the work of shard n hang while this member owns it: the shard's probe no longer
// answers, so the shard moves to another member, and this one keeps its other shards.
func (p *Peer) Hang(n int) { p.of(n).Hang() }

// Pass ends a Hang: the probe of shard n passes again.
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

// Settle blocks until every shard of a group has an owner and none is about to move, and returns
// the status that an operator would see. The test fails if that takes more than ten minutes.
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

// isPlanned reports whether the plan has shards for every member that wants some, such as one that
// has just joined.
func isPlanned(st shard.Status) bool {
	for _, m := range st.Members {
		if m.Closed == "" && len(m.Planned) == 0 && st.Shards >= len(st.Members) {
			return false
		}
	}
	return true
}

// TakeShard takes the lease of shard n away from m, which must own the shard, as [Redis.TakeLease]
// does for an election. It returns when m's term has ended. m owns the shard again after a lease.
func (r *Redis) TakeShard(m *shard.Member, n int) {
	r.t.Helper()
	term := m.Term(n)
	if term == nil {
		r.t.Fatalf("electortest: %s does not own shard %d of %s", m.ID(), n, m.Group())
	}
	r.takeLease(shard.ElectionOf(m.Group(), n), m.ID(), term.Term)
}
