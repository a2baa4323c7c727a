package quorum

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// Meet queries the nodes for their identities if too few are known for the next claim to name a
// majority of them: at the start of a process, and after a long rest. Two candidates whose claims
// name no identities could both win without noticing that their lists of nodes differ. Meet blocks
// for one round trip to a majority, of at most the call time-out.
//
// Until a majority has answered it once, the same requests also show which of these groups of shards
// exists; empty: none, or no majority has answered, and the candidate claims anyway. The election of a
// shard passes no groups.
func (v *Voter) Meet(ctx context.Context, groups ...string) (exists string) {
	if v.acquainted(len(groups) == 0) {
		return ""
	}
	if v.introduced {
		groups = nil
	}
	v.met = time.Now()
	r, ended := v.newRound(protocol.Identified, true), make(chan *request, v.nodes.Len())
	for node := range v.nodes.list {
		r.sent[node]++
		v.background.Go(func() { ended <- v.introduce(ctx, r, node, groups) })
	}
	r.await(ended, func(a *request) { v.identities.meet(a.node, a.answer.ID, a.sent) })
	if len(groups) == 0 {
		return ""
	}
	met, known := 0, make(map[string]int)
	for _, a := range r.answers {
		if a.Status != protocol.Identified {
			continue
		}
		met++
		if known[a.Note]++; a.Note != "" && known[a.Note] >= v.nodes.Majority() {
			exists = a.Note
		}
	}
	v.introduced = met >= v.nodes.Majority()
	return exists
}

// introduce reads the identity of a node, and the first of the groups that it knows. It has the time to
// make the first connection of a process, which with Sentinel or a Cluster takes many round trips: the
// claim that follows finds it ready.
func (v *Voter) introduce(ctx context.Context, r *round, node int, groups []string) *request {
	ctx, cancel := context.WithTimeout(ctx, max(connectLimits*v.cfg.CallTimeout, stepTimeout))
	defer cancel()
	a := &request{node: node, round: r, sent: time.Now(), answer: noAnswer}
	k := &v.cfg.Keys
	id, settings := redis.NewStringCmd(ctx, "get", k.ID), make([]*redis.StringCmd, len(groups))
	all := []redis.Cmder{id}
	for i, g := range groups {
		settings[i] = redis.NewStringCmd(ctx, "get", protocol.GroupKey(k.Prefix(), g))
		all = append(all, settings[i])
	}
	_ = v.nodes.list[node].reads.do(ctx, all...) // each has its own error
	if ctx.Err() != nil {
		a.answer.Err = ctx.Err()
		return a
	}
	if err := id.Err(); err != nil && !rediserr.Missing(err) {
		a.answer.Err = err
		return a
	}
	a.answer = protocol.Answer{Status: protocol.Identified, ID: protocol.ParseIdentity(id.Val())}
	for i, s := range settings {
		if strings.HasPrefix(s.Val(), "{") { // another program's key is no group
			a.answer.Note = groups[i]
			break
		}
	}
	return a
}

// acquainted reports whether the next claim needs no Meet before it. shard is true for the election
// of a shard.
func (v *Voter) acquainted(shard bool) bool {
	if !shard && !v.introduced {
		return false
	}
	return v.knows() >= v.nodes.Majority() || !v.met.IsZero() && time.Since(v.met) < protocol.ConfirmedWithin(v.cfg.Lease)
}

// knows returns how many nodes' identities are known.
func (v *Voter) knows() int {
	return len(slices.DeleteFunc(v.identities.known(), func(id string) bool { return id == "" }))
}
