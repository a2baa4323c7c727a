package quorum

import (
	"context"
	"errors"
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
func (v *Voter) Meet(ctx context.Context) {
	if v.Acquainted() {
		return
	}
	v.met = time.Now()
	r := newRound(v.nodes.Len(), v.nodes.Majority(), Met, func(node int) Answer {
		v.background.begin()
		defer v.background.end()
		a := Answer{Status: Unknown, Err: context.DeadlineExceeded}
		q := v.queues[node]
		q.run(ctx, v.cfg.CallTimeout, func(ctx context.Context) {
			sent := time.Now()
			ctx = conns.Bound(ctx, v.cfg.CallTimeout, nil)
			id, err := v.nodes.list[node].rdb.Get(ctx, v.cfg.Keys.ID).Result()
			if err != nil && !errors.Is(err, redis.Nil) {
				a.Err = err
				return
			}
			a = Answer{Status: Met, ID: parseIdentity(id)}
			q.meet(a.ID, sent, v.cfg.Lease)
		})
		return a
	})
	r.poll()
	r.awaitExpected()
}

// Acquainted reports whether the next claim needs no Meet before it.
func (v *Voter) Acquainted() bool {
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
