package quorum

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/conns"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// Identities are those of the nodes, as far as they answered lately. Safe beside the
// other methods.
func (v *Voter) Identities() protocol.Identities { return v.identities() }

// Meet queries the nodes for their identities where too few are known for the next claim
// to name a majority of them: at the start of a process, and after a long rest. Who
// comes without them could win beside another that names none either. It blocks for a
// round trip to a majority, at most for the call time-out.
//
// The same requests show whether one of these groups of shards exists, until a majority has answered
// that once: which one. A candidate that can't reach a majority is none the wiser, and claims. That of a
// shard names none.
func (v *Voter) Meet(ctx context.Context, groups ...string) (exists string) {
	if v.Acquainted(len(groups) == 0) {
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
		q.run(ctx, v.cfg.CallTimeout, func(ctx context.Context) {
			sent := time.Now()
			ctx = conns.Bound(ctx, v.cfg.CallTimeout, nil)
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

// introduce reads the identity of a node, and which of some groups it knows: the first one of them, in one
// round trip. The error is that of the identity.
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

// Acquainted reports whether the next claim needs no Meet before it.
func (v *Voter) Acquainted(shard bool) bool {
	if !shard && !v.introduced {
		return false
	}
	return v.knows() >= v.nodes.Majority() || !v.met.IsZero() && time.Since(v.met) < protocol.ConfirmedWithin(v.cfg.Lease)
}

// knows is of how many nodes the identity is known.
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

// Rivals are who held nodes against the newest term at the last answers, also those
// that came when their round was over.
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
