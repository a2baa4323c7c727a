package quorum

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/transport"
)

// Identities returns the identities of the nodes that have answered lately. It is safe for
// concurrent use with the other methods.
func (v *Voter) Identities() protocol.Identities { return v.identities() }

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
	r := newRound(v.nodes.Len(), v.nodes.Majority(), protocol.Identified, func(node int) protocol.Answer {
		v.background.begin()
		defer v.background.end()
		a := protocol.Answer{Status: protocol.Unknown, Err: context.DeadlineExceeded}
		q := v.queues[node]
		// Long enough to make the first connection of a process, which with Sentinel or a Cluster takes many
		// round trips: the claim that follows finds it ready.
		q.run(ctx, max(v.cfg.CallTimeout, stepTimeout/(transport.ConnectLimits+1)), func(ctx context.Context) {
			sent := time.Now()
			id, group, err := v.nodes.list[node].introduce(ctx, v.cfg.Keys, groups)
			if err != nil && !errors.Is(err, redis.Nil) {
				a.Err = err
				return
			}
			a = protocol.Answer{Status: protocol.Identified, ID: protocol.ParseIdentity(id), Note: group}
			q.meet(a.ID, sent, v.cfg.Lease)
		})
		return a
	})
	r.poll()
	r.awaitExpected()
	if len(groups) == 0 {
		return ""
	}
	met, known := 0, make(map[string]int)
	for _, a := range r.now() {
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

// introduce reads the identity of a node and the first of the groups that it knows, in one round
// trip. The error is that of reading the identity.
func (n *Node) introduce(ctx context.Context, k protocol.Keys, groups []string) (id, group string, err error) {
	if len(groups) == 0 {
		id, err = n.rdb.Get(ctx, k.ID).Result()
		return id, "", err
	}
	p := n.rdb.Pipeline()
	own, settings := p.Get(ctx, k.ID), make([]*redis.StringCmd, len(groups))
	for i, g := range groups {
		settings[i] = p.Get(ctx, protocol.GroupKey(k.Prefix(), g))
	}
	_, _ = p.Exec(ctx) // each has its own error
	for i, s := range settings {
		if strings.HasPrefix(s.Val(), "{") { // another program's key is no group
			group = groups[i]
			break
		}
	}
	id, err = own.Result()
	return id, group, err
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
	n, now := 0, time.Now()
	for _, q := range v.queues {
		if q.known(now, v.cfg.Lease) != "" {
			n++
		}
	}
	return n
}

// Rival is an attempt of another candidate that holds the lock of a node while this voter
// serves a term.
type Rival struct {
	Node   string
	Holder string        // the lock value
	For    time.Duration // from the first to the last time that it was met there
}

// Rivals returns the attempts of other candidates that held nodes against the newest term
// at the last answers, including answers that came after their round was over.
func (v *Voter) Rivals() []Rival {
	var all []Rival
	for i, q := range v.queues {
		q.mu.Lock()
		r := q.rival
		q.mu.Unlock()
		if r != nil {
			all = append(all, Rival{Node: v.nodes.list[i].Name, Holder: r.holder, For: r.last.Sub(r.since)})
		}
	}
	return all
}
