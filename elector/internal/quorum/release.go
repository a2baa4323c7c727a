package quorum

import (
	"context"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// Release releases the locks of one term. It can be tried until it is definite: its
// requests name the attempt that won the term, so a late or repeated one does not
// touch a newer lock.
type Release struct {
	v        *Voter
	seq      uint64
	value    string
	token    uint64
	heir     protocol.Heir
	counters []uint64 // the highest counters that the term's renewals can name

	mu    sync.Mutex
	done  map[int]protocol.Answer // the answers of the nodes where it is definite
	asked map[int]bool            // the nodes that did not answer a request
}

// Releasing ends the attempt that won the term and returns its Release, which Try
// sends. A later Claim does not change the Release.
func (v *Voter) Releasing(token uint64, heir protocol.Heir) *Release {
	v.alive.Store(0)
	r := &Release{v: v, seq: v.seq, value: v.lock.String(), token: token, heir: heir, done: map[int]protocol.Answer{}, asked: map[int]bool{}}
	for _, q := range v.queues {
		r.counters = append(r.counters, q.lastCounter())
	}
	return r
}

// NewVoterOf returns a Voter that can only release the term that another process has won by that
// attempt. It does not know which counters the renewals of that process were shown: a renewal that
// is still under way may plant the lock again on a node whose counter is higher than the token, and
// hold that node for a lease. Such nodes are never a majority.
func NewVoterOf(ns *Nodes, cfg VoterConfig, attempt, token uint64) *Voter {
	v := NewVoter(ns, cfg)
	v.seq, v.onlyHeld = attempt, true
	v.lock = protocol.LockValue{
		Candidate: cfg.Candidate, Incarnation: cfg.Incarnation, Seq: attempt,
		Nodes: ns.Len(), Lease: cfg.Lease, Advertise: cfg.Advertise(), Token: token,
	}
	return v
}

// Try releases the lock on the nodes where that is not definite yet, and notifies their front
// rows. It blocks until it is known whether a majority has released; the requests to the other
// nodes continue. Each request waits at most limit for its turn, and at most the call time-out for its
// answer. Try takes no context: a cancelled one must not leave a lock behind. It must not be
// called concurrently.
func (r *Release) Try(limit time.Duration) Tally {
	k, v := r.v.cfg.Keys, r.v
	rd := newRound(v.nodes.Len(), v.nodes.Majority(), protocol.Released, func(node int) protocol.Answer {
		if a, ok := r.definite(node); ok {
			return a
		}
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		a := v.callLate(ctx, node, protocol.ReleaseScript, k.ReleaseKeys(), func() []any {
			if _, ok := r.definite(node); ok { // meanwhile, by the request before this one
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

// Left returns on how many nodes the lock may still be this term's.
func (r *Release) Left() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.v.nodes.Len() - len(r.done)
}

// Released reports whether a node held the lock for this term and released it, or may have: an
// answer of the node was lost, and the lock is gone.
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

// Definite reports whether a majority of the nodes no longer holds the lock for this term, so
// that another candidate can be elected.
func (r *Release) Definite() bool { return r.v.nodes.Len()-r.Left() >= r.v.nodes.Majority() }
