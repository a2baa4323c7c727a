package quorum

import (
	"context"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/conns"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/transport"
)

// nodeQueue holds the requests of one elector to one node: one in flight, in order.
// So a release follows the end of the renewal before it, and never overtakes it.
type nodeQueue struct {
	turn chan struct{}

	mu           sync.Mutex
	counter      uint64 // the highest counter that this node has shown to the current term
	unresponsive bool   // the last request got no answer
	identity     identity
	shown        shown  // what renewals say of the node
	rival        *rival // who held this node's lock at the last renewal, if not we; nil: no candidate
	gone         bool   // at the last renewal it was free, and its counter beyond ours
	highest      string // what the version's key held at the last claim that was lost
	abandoned    uint64 // highest seq whose grant must be given back; 0 none waiting
}

// shown is what a renewal says of its node, as the script's arguments. They are made anew only when they change: a
// process with ten thousand elections renews four thousand times a second.
type shown struct {
	counter  any // that it has shown
	identity any // that it has
	offer    any // of an identity; nil: none that no node may have taken
}

// identity is what an elector knows of a node.
type identity struct {
	id    string
	since time.Time // when the node first answered with it
	asked time.Time // when the request was sent that it answered last
}

func newNodeQueue() *nodeQueue { return &nodeQueue{turn: make(chan struct{}, 1)} }

// run waits for its turn and calls f with the context of a request, which bounds the time from
// then on to its answer. f is dropped, and false returned, when ctx ended before its turn.
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
	// Nothing is sent after ctx's end (a term's deadline), but once it was sent
	// it is not cancelled early either: an answer is worth having.
	if ctx.Err() != nil {
		return false
	}
	call, cancel := conns.Until(ctx, (transport.Connecting+1)*limit)
	defer cancel()
	f(call)
	return true
}

// take takes the turn if it is free, and gives it back.
func (q *nodeQueue) take() bool {
	select {
	case q.turn <- struct{}{}:
		return true
	default:
		return false
	}
}

func (q *nodeQueue) give() { <-q.turn }

// note takes the outcome of a request: the answer, or that the node is not responding.
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

// show is what a renewal that is sent now says of the node.
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

// versions are what a claim names for a candidate of that version: what it was shown and may
// follow, and what is to be kept once it leads.
func (q *nodeQueue) versions(version string) (shown, next string) {
	if version == "" {
		return "", ""
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if ok, next := protocol.Admits(q.highest, version); ok {
		return q.highest, next
	}
	return "", version
}

// judge notes what a claim was shown. It reports whether a candidate of that version must not lead.
func (q *nodeQueue) judge(a protocol.Answer, version string) bool {
	if version == "" || a.Status == protocol.Unknown || a.Status == protocol.Won {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.highest = a.Highest
	ok, _ := protocol.Admits(a.Highest, version)
	return !ok
}

// abandon notes that the grants of attempts up to seq must be given back; it
// reports whether the caller has to do it (false: one that waits for its turn
// already will). It keeps the way to a hung node from piling up.
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

// meet notes a node's answer to a request of that time. It reports whether the identity
// has been known for long.
func (q *nodeQueue) meet(id string, sent time.Time, lease time.Duration) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if id == "" || q.shown.offer == id {
		q.shown.offer = nil // nothing is known of it, or it was taken: a node that forgets it must not get it again
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
	// Also by the wall clock, which continues while the machine sleeps; and never by a
	// step of it alone.
	return min(now.Sub(since), now.Sub(since.Round(0))) >= protocol.Settled(lease)
}

// known is the node's identity, empty when it has not been confirmed lately: a node
// that was taken out of service must not count for ever.
func (q *nodeQueue) known(now time.Time, lease time.Duration) string {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := q.identity.asked
	if q.identity.id == "" || max(now.Sub(at), now.Sub(at.Round(0))) > protocol.ConfirmedWithin(lease) {
		return ""
	}
	return q.identity.id
}

// rival is who held a node against the newest term.
type rival struct {
	attempt, holder string
	since, last     time.Time
}

// next is what an answer makes of what was known.
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
