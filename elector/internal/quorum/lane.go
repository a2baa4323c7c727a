package quorum

import (
	"context"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/conns"
)

// lane is the way of one elector to one node: one request in flight, in order.
// So a release follows the end of the renewal before it, and never overtakes it.
type lane struct {
	turn chan struct{}

	mu        sync.Mutex
	told      uint64 // the highest fence that this node told the current term
	silent    bool   // the last request got no answer
	identity  identity
	rival     rival  // who held this node's lock at the last renewal, if not we
	gone      bool   // at the last renewal it was free, and its counter beyond ours
	abandoned uint64 // highest seq whose grant must be given back; 0 none waiting
}

func newLane() *lane { return &lane{turn: make(chan struct{}, 1)} }

// connecting is how many times the limit of a request it may wait for its connection,
// which is made in the background meanwhile, and ready for the next one if it is late for
// this.
const connecting = 2

// run waits for its turn and calls f, with a context of its own: a request under it waits
// for a connection, and has the limit for its answer from when it is sent. wanted, unless
// nil, is asked again before a request that had to wait is sent. f is dropped, and false
// returned, when ctx ended before its turn.
func (l *lane) run(ctx context.Context, limit time.Duration, wanted func() bool, f func(context.Context)) bool {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	defer func() { <-l.turn }()
	// Nothing is sent after ctx's end (a term's deadline), but once it was sent
	// it is not cancelled early either: an answer is worth having.
	if ctx.Err() != nil {
		return false
	}
	call, cancel := context.WithTimeout(ctx, (connecting+1)*limit)
	defer cancel()
	f(conns.Bound(call, limit, wanted))
	return true
}

// hear takes the end of a request: what it told, or that the node is silent.
func (l *lane) hear(a Answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.silent = a.Status == Unknown
	if l.silent {
		return
	}
	l.told = max(l.told, a.Fence)
	l.rival, l.gone = l.rival.next(a), a.Status == Gone
}

func (l *lane) silence() {
	l.mu.Lock()
	l.silent = true
	l.mu.Unlock()
}

func (l *lane) isSilent() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.silent
}

func (l *lane) heard() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.told
}

func (l *lane) forget() {
	l.mu.Lock()
	l.told, l.rival, l.gone = 0, rival{}, false
	l.mu.Unlock()
}

// abandon notes that the grants of attempts up to seq must be given back; it
// tells whether the caller has to do it (false: one that waits for its turn
// already will). It keeps the way to a hung node from piling up.
func (l *lane) abandon(seq uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := l.abandoned == 0
	l.abandoned = max(l.abandoned, seq)
	return first
}

func (l *lane) takeAbandoned() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	seq := l.abandoned
	l.abandoned = 0
	return seq
}

// meet notes a node's answer to a request of that time. It tells whether the identity
// has been known for long.
func (l *lane) meet(id string, sent time.Time, lease time.Duration) bool {
	if id == "" {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.identity.id != id {
		l.identity = identity{id: id, since: time.Now()}
	}
	l.identity.asked = sent
	since := l.identity.since
	// Also by the wall clock, which goes on while the machine sleeps; and never by a
	// step of it alone.
	return min(time.Since(since), time.Since(since.Round(0))) >= settled(lease)
}

// known is the node's identity, empty when it has not been confirmed lately: a node
// that was taken out of service must not count for ever.
func (l *lane) known(lease time.Duration) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.identity.asked
	if l.identity.id == "" || max(time.Since(at), time.Since(at.Round(0))) > told(lease) {
		return ""
	}
	return l.identity.id
}

// rival is who held a node against the newest term.
type rival struct {
	attempt, holder string
	since, last     time.Time
}

// next is what an answer makes of what was known.
func (r rival) next(a Answer) rival {
	if a.Status != Taken || a.Holder == "" {
		return rival{}
	}
	_, attempt := attemptOf(a.Holder)
	if attempt != r.attempt {
		r.since = time.Now()
	}
	r.attempt, r.holder, r.last = attempt, a.Holder, time.Now()
	return r
}
