package quorum

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/conns"
)

// Identities are those of the nodes, as far as they answered lately. Safe beside the
// other methods.
func (v *Voter) Identities() Identities { return v.identities() }

// Meet queries the nodes for their identities where too few are known for the next claim
// to name a majority of them: at the start of a process, and after a long rest. Who
// comes without them could win beside another that names none either. It blocks for a
// round trip to a majority, at most for the call time-out.
//
// The same requests show whether a group of shards has the election's name, until a majority has
// answered that once: grouped. A candidate that can't reach a majority is none the wiser, and claims.
func (v *Voter) Meet(ctx context.Context, shard bool) (grouped bool) {
	first := !shard && !v.introduced
	if v.Acquainted(shard) {
		return false
	}
	v.met = time.Now()
	r := newRound(v.nodes.Len(), v.nodes.Majority(), Identified, func(node int) Answer {
		v.background.begin()
		defer v.background.end()
		a := Answer{Status: Unknown, Err: context.DeadlineExceeded}
		q := v.queues[node]
		q.run(ctx, v.cfg.CallTimeout, func(ctx context.Context) {
			sent := time.Now()
			ctx = conns.Bound(ctx, v.cfg.CallTimeout, nil)
			id, settings, err := v.nodes.list[node].introduce(ctx, v.cfg.Keys, first)
			if err != nil && !errors.Is(err, redis.Nil) {
				a.Err = err
				return
			}
			a = Answer{Status: Identified, ID: parseIdentity(id), Note: settings}
			q.meet(a.ID, sent, v.cfg.Lease)
		})
		return a
	})
	r.poll()
	r.awaitExpected()
	if !first {
		return false
	}
	met, of := 0, 0
	for _, a := range r.now() {
		if a.Status == Identified {
			met++
		}
		if strings.HasPrefix(a.Note, "{") { // another program's key is no group
			of++
		}
	}
	v.introduced = met >= v.nodes.Majority()
	return of >= v.nodes.Majority()
}

// introduce reads the identity of a node, and with group the settings of a group of the election's
// name, in one round trip. The error is that of the identity.
func (n *Node) introduce(ctx context.Context, k Keys, group bool) (id, settings string, err error) {
	if !group {
		id, err = n.rdb.Get(ctx, k.ID).Result()
		return id, "", err
	}
	p := n.rdb.Pipeline()
	of, found := p.Get(ctx, k.ID), p.Get(ctx, k.group())
	_, _ = p.Exec(ctx) // each has its own error
	id, err = of.Result()
	return id, found.Val(), err
}

// Acquainted reports whether the next claim needs no Meet before it.
func (v *Voter) Acquainted(shard bool) bool {
	if !shard && !v.introduced {
		return false
	}
	return v.knows() >= v.nodes.Majority() || !v.met.IsZero() && time.Since(v.met) < confirmedWithin(v.cfg.Lease)
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
