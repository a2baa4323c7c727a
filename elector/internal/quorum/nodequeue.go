package quorum

import (
	"context"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/transport"
)

// nodeQueue orders the requests of one elector to one node: one is in flight at a time. So
// a release follows the end of the renewal before it, and never overtakes it.
type nodeQueue struct {
	turn chan struct{} // holds an element while a request has its turn

	mu           sync.Mutex // guards all below
	counter      uint64     // the highest counter that this node has shown to the current term
	unresponsive bool       // the last request got no answer
	identity     identity
	shown        shown  // the arguments of renewals that describe the node
	rival        *rival // the other candidate that held the lock at the last renewal; nil: none
	gone         bool   // at the last renewal the lock was free, and the counter higher than ours
	abandoned    uint64 // the highest seq whose grant must be given back; 0: none
}

// shown holds those arguments of a renewal that describe its node. To save allocations they are
// replaced only when they change: a process with ten thousand elections renews four thousand times a
// second.
type shown struct {
	counter  any // the node's counter, as far as it was shown
	identity any // the node's identity
	offer    any // an identity that the node may take; nil: the next request needs a new one
}

// identity is what an elector knows of a node.
type identity struct {
	id    string
	since time.Time // when the node first answered with id
	asked time.Time // when the last request was sent that the node answered
}

func newNodeQueue() *nodeQueue { return &nodeQueue{turn: make(chan struct{}, 1)} }

// run waits for a turn and calls f with a context that bounds the time from then on to the
// request's answer. If ctx ends before, run returns false without calling f.
func (q *nodeQueue) run(ctx context.Context, limit time.Duration, f func(context.Context)) bool {
	select {
	case q.turn <- struct{}{}:
	default:
		select {
		case q.turn <- struct{}{}:
		case <-ctx.Done():
			return false
		}
	}
	defer func() { <-q.turn }()
	// Nothing is sent after the end of ctx (a term's deadline). A request that was
	// sent is not cancelled then, since its answer is still useful.
	if ctx.Err() != nil {
		return false
	}
	call, cancel := context.WithTimeout(ctx, (transport.ConnectLimits+1)*limit)
	defer cancel()
	f(call)
	return true
}

// take takes the turn if it is free; give gives it back.
func (q *nodeQueue) take() bool {
	select {
	case q.turn <- struct{}{}:
		return true
	default:
		return false
	}
}

func (q *nodeQueue) give() { <-q.turn }

// note records the outcome of a request: the answer, or that the node is not responding.
func (q *nodeQueue) note(a protocol.Answer) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.unresponsive = a.Status == protocol.Unknown
	if q.unresponsive {
		return
	}
	q.counter = max(q.counter, a.Fence)
	q.rival, q.gone = q.rival.next(a), a.Status == protocol.NoLock
}

func (q *nodeQueue) markUnresponsive() {
	q.mu.Lock()
	q.unresponsive = true
	q.mu.Unlock()
}

func (q *nodeQueue) isUnresponsive() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.unresponsive
}

func (q *nodeQueue) lastCounter() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.counter
}

// show returns the arguments that describe the node in a renewal that is sent now.
func (q *nodeQueue) show() shown {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := &q.shown
	if s.counter != q.counter {
		s.counter = q.counter
	}
	if s.identity != q.identity.id {
		s.identity = q.identity.id
	}
	if s.offer == nil {
		s.offer = protocol.NewIdentity()
	}
	return *s
}

func (q *nodeQueue) forget() {
	q.mu.Lock()
	q.counter, q.rival, q.gone = 0, nil, false
	q.mu.Unlock()
}

// abandon records that the grants of attempts up to seq must be given back. It
// reports whether the caller must send the release; false: a release that is
// already waiting for its turn includes it. So no releases pile up at a hung node.
func (q *nodeQueue) abandon(seq uint64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	first := q.abandoned == 0
	q.abandoned = max(q.abandoned, seq)
	return first
}

func (q *nodeQueue) takeAbandoned() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	seq := q.abandoned
	q.abandoned = 0
	return seq
}

// meet records the identity in a node's answer to a request that was sent at that time. It
// reports whether the node has had that identity for long (protocol.Settled).
func (q *nodeQueue) meet(id string, sent time.Time, lease time.Duration) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if id == "" || q.shown.offer == id {
		q.shown.offer = nil // the node took it, or may have: once it forgets it, it must not get it again
	}
	if id == "" {
		return false
	}
	now := time.Now()
	if q.identity.id != id {
		q.identity = identity{id: id, since: now}
	}
	q.identity.asked = sent
	since := q.identity.since
	// By both clocks: a step of the wall clock alone must not settle an identity.
	return min(now.Sub(since), now.Sub(since.Round(0))) >= protocol.Settled(lease)
}

// known returns the node's identity, or "" if the node has not confirmed it lately: a
// node that was taken out of service must not count for ever. The wall clock counts as
// well, since it continues while the machine sleeps.
func (q *nodeQueue) known(now time.Time, lease time.Duration) string {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := q.identity.asked
	if q.identity.id == "" || max(now.Sub(at), now.Sub(at.Round(0))) > protocol.ConfirmedWithin(lease) {
		return ""
	}
	return q.identity.id
}

// rival is an attempt of another candidate that holds a node's lock during our newest term.
type rival struct {
	attempt, holder string
	since, last     time.Time
}

// next returns the rival that a renewal's answer shows, or nil; r is the one from before.
func (r *rival) next(a protocol.Answer) *rival {
	if a.Status != protocol.Taken || a.Holder == "" {
		return nil
	}
	_, attempt := protocol.AttemptOf(a.Holder)
	now := time.Now()
	next := &rival{attempt: attempt, holder: a.Holder, since: now, last: now}
	if r != nil && r.attempt == attempt {
		next.since = r.since
	}
	return next
}
