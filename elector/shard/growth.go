package shard

import (
	"context"
	"crypto/rand"
	"slices"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/group"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// growth is the assigner's preparation for growing the group to the number of shards that all members
// are configured for.
type growth struct {
	m       *Member
	propose func(group.Settings)

	to     int                // shards; 0: not all members are configured for the same multiple
	cancel context.CancelFunc // ends the introductions
	known  chan time.Time     // receives the time since which the nodes know the elections of the new shards
	since  time.Time          // the time received from known; zero: none yet
}

func (g *growth) end() {
	if g.cancel != nil {
		g.cancel()
	}
}

// checkGrowth proposes that the group grows when all members have been configured for the same multiple of
// its shards for a lease: neither a canary starts a growth, nor a restart of the last member with the
// old number. Meanwhile look introduces the elections of the new shards to the nodes, which grant
// nothing for a lease after that. Else the keys of the new shards would have no owner for that long.
func (g *growth) checkGrowth(ctx context.Context, s group.Settings, members []group.Member) {
	to := members[0].Shards
	if s.From > 0 || to <= s.Shards || to > group.MaxShards || to%s.Shards != 0 ||
		slices.ContainsFunc(members, func(m group.Member) bool { return m.Shards != to }) {
		to = 0
	}
	if g.to != to {
		g.end()
		g.to, g.since = to, time.Time{}
		if to > 0 {
			g.begin(ctx, s.Shards)
		}
	}
	if to == 0 {
		return
	}
	select {
	case g.since = <-g.known:
	default:
	}
	if !g.since.IsZero() && time.Since(g.since) > g.m.cfg.Lease {
		g.propose(group.Settings{Shards: to, Lease: s.Lease, From: s.Shards, Floor: s.Floor})
	}
}

func (g *growth) begin(ctx context.Context, from int) {
	ctx, g.cancel = context.WithCancel(ctx)
	to, known := g.to, make(chan time.Time, 1)
	g.known = known
	go func() {
		g.m.introduce(ctx, from, to)
		known <- time.Now()
	}()
}

// introduce claims once in the election of each of these shards. The nodes note the election, but
// don't grant the claim yet; grants of nodes that know the election already are given back. No term
// begins, and none is recorded: a history with terms of a moment would count what follows as time
// without a leader.
func (m *Member) introduce(ctx context.Context, from, to int) {
	var all sync.WaitGroup
	queue := make(chan int)
	for range min(introductions, to-from) {
		all.Go(func() {
			for s := range queue {
				v := quorum.NewVoter(m.nodes, quorum.VoterConfig{
					Keys: protocol.KeysOf(m.quorum.Prefix(), ElectionOf(m.cfg.Group, s)), Candidate: m.cfg.ID, Incarnation: rand.Text()[:16],
					Advertise: func() string { return m.cfg.Advertise }, Lease: m.cfg.Lease, CallTimeout: m.cfg.requestTimeout(),
				})
				if token, _ := v.Claim(ctx, 0, nil); token > 0 {
					v.Abandon()
				}
				v.WaitIdle(m.cfg.requestTimeout())
			}
		})
	}
	for s := from; s < to && ctx.Err() == nil; s++ {
		queue <- s
	}
	close(queue)
	all.Wait()
}

// introductions is how many introductions are under way at one time.
const introductions = 16
