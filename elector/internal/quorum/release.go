package quorum

import (
	"context"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/conns"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// Release is the giving back of one term. It may be tried until it is definite: it
// names the attempt that won the term, so one that comes late, or twice, finds a
// newer lock to be none of its business.
type Release struct {
	v        *Voter
	seq      uint64
	value    string
	token    uint64
	heir     protocol.Heir
	counters []uint64 // the highest counters that the term's renewals can name

	mu    sync.Mutex
	done  map[int]protocol.Answer // the nodes where it is definite
	asked map[int]bool            // the nodes that have left a request unanswered
}

// Releasing ends the attempt that won the term; Try sends the release. A later Claim
// does not change it.
func (v *Voter) Releasing(token uint64, heir protocol.Heir) *Release {
	v.alive.Store(0)
	r := &Release{v: v, seq: v.seq, value: v.lock.String(), token: token, heir: heir, done: map[int]protocol.Answer{}, asked: map[int]bool{}}
	for _, q := range v.queues {
		r.counters = append(r.counters, q.lastCounter())
	}
	return r
}

// NewVoterOf is a Voter that does no more than release the term which another process has won
// by that attempt. It does not know what this process's renewals were shown: one that is still under way may
// find a node whose counter is beyond the token free, and hold that for a lease. These are
// never a majority.
func NewVoterOf(ns *Nodes, cfg VoterConfig, attempt, token uint64) *Voter {
	v := NewVoter(ns, cfg)
	v.seq, v.onlyHeld = attempt, true
	v.lock = protocol.LockValue{
		Candidate: cfg.Candidate, Incarnation: cfg.Incarnation, Seq: attempt,
		Nodes: ns.Len(), Lease: cfg.Lease, Advertise: cfg.Advertise(), Token: token,
	}
	return v
}

// Try gives the term back on the nodes where that is not definite yet, and reports it to
// their front rows. It waits for a majority, and a little for the others, whose turn may
// come later; each request waits for its turn for limit at most, and for its answer for
// the call time-out. It depends on no context: a dead one must not leave a lock behind.
// One Try at a time.
func (r *Release) Try(limit time.Duration) Tally {
	k, v := r.v.cfg.Keys, r.v
	rd := newRound(v.nodes.Len(), v.nodes.Majority(), protocol.Released, func(node int) protocol.Answer {
		if a, ok := r.definite(node); ok {
			return a
		}
		ctx, cancel := conns.Until(context.Background(), limit)
		defer cancel()
		a := v.callLate(ctx, node, protocol.ReleaseScript, k.ForRelease(), func() []any {
			if _, ok := r.definite(node); ok { // meanwhile, by the request that stood before this one
				return nil
			}
			return protocol.ReleaseArgs(v.cfg.Incarnation, r.seq, v.cfg.Lease, r.token, k, r.value, r.heir, r.counters[node], r.v.onlyHeld)
		})
		r.note(node, a)
		return a
	})
	rd.poll()
	return v.tally(rd)
}

func (r *Release) definite(node int) (protocol.Answer, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a, ok := r.done[node]
	return a, ok
}

func (r *Release) note(node int, a protocol.Answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a.Status == protocol.Unknown {
		r.asked[node] = true
		return
	}
	r.done[node] = a
}

// Left is on how many nodes the lock may still be this term's.
func (r *Release) Left() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.v.nodes.Len() - len(r.done)
}

// Released reports whether a node held the lock for this term, and gave it back; or may have: its
// answer was lost, and the lock is gone.
func (r *Release) Released() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for node, a := range r.done {
		if a.Status == protocol.Released || a.Status == protocol.NoLock && r.asked[node] {
			return true
		}
	}
	return false
}

// Definite reports whether a majority of the nodes holds the lock no more for this term:
// others can be elected.
func (r *Release) Definite() bool { return r.v.nodes.Len()-r.Left() >= r.v.nodes.Majority() }
