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

// growth is one that all members are configured for, as the assigner sees it.
type growth struct {
	m       *Member
	propose func(group.Settings)

	to     int                // shards; 0: the members are not all configured for more than there are
	cancel context.CancelFunc // ends the introductions
	known  chan time.Time     // since when the nodes know the elections of the new shards
	since  time.Time          // that, once it was received
}

func (g *growth) end() {
	if g.cancel != nil {
		g.cancel()
	}
}

// look has the group grow when all members have been configured for the same multiple of its
// shards for a lease: a canary does not decide, nor does the moment in which the last old
// member starts again. Meanwhile the nodes get to know the elections of the new shards: they
// grant nothing for the first lease, for which the keys of these would have no owner.
func (g *growth) look(ctx context.Context, s group.Settings, members []group.Member) {
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

// introduce claims once in the elections of these shards, so that the nodes know of them: they note that, and grant it not
// yet. What nodes that know already grant is given back. No member leads by it, so that nothing is reported: a history with
// terms of a moment would count what follows as time without a leader.
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

// introductions are how many of them are under way at one time.
const introductions = 16
