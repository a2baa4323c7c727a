package electorhttp

import (
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// Bounds of a worker's name. It is also what keeps others from reporting that
// the worker has stopped, so it must not be easy to guess.
const (
	minWorker  = 8
	maxWorker  = 64
	maxWorkers = 64 // with a name, in one term; the promises to others can only lapse
)

// promises are what /leader has promised about one term: that its lock is not
// released before a worker's permission to work has lapsed, or the worker has
// reported that it has stopped. Times are of the monotonic clock, which the
// worker's clock does not outlast: it shares the machine, or at least its rate.
type promises struct {
	token uint64

	mu      sync.Mutex
	closed  bool                 // no more promises: the term has ended, or its work has
	unnamed time.Time            // when the last promise to a request without a name lapses
	workers map[string]time.Time // when each worker's does; zero: it has stopped
	stopped bool                 // one has, at least
	changed chan struct{}        // closed when all that were waited for have stopped
}

func newPromises(term *elector.Term) *promises {
	return &promises{token: term.Token(), workers: map[string]time.Time{}, changed: make(chan struct{})}
}

// isClosed reports whether no more promises are made.
func (p *promises) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// close ends the promising, and returns when the last promise lapses.
func (p *promises) close() (until time.Time, stopped bool, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	until = p.unnamed
	for _, t := range p.workers {
		if t.After(until) {
			until = t
		}
	}
	return until, p.stopped, p.changed
}

// give makes a promise, of at most so much, and records it before anybody can
// learn of it. Promising and closing exclude one another: a promise is either
// waited for, or not made. ok is false when the term, or its work, has ended.
func (p *promises) give(term *elector.Term, worker string, most time.Duration) (valid time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || !term.Valid() {
		return 0, false
	}
	// Whole milliseconds, as they are sent: what is cut off is never promised.
	valid = min(term.Left(), most).Truncate(time.Millisecond)
	if valid <= 0 {
		return 0, true
	}
	// The worker counts from before its request, so its permission ends no later.
	until := time.Now().Add(valid)
	_, known := p.workers[worker]
	switch {
	case worker == "" || !known && len(p.workers) >= maxWorkers:
		if until.After(p.unnamed) {
			p.unnamed = until
		}
	case until.After(p.workers[worker]):
		p.workers[worker] = until
	}
	return valid, true
}

type stopResult int

const (
	stopDone stopResult = iota
	stopHolds
	stopUnknown
)

// stop gives back what a worker was promised. over: the term has ended.
func (p *promises) stop(worker string, over bool) stopResult {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = p.closed || over // a term that has ended never comes back
	if !p.closed {
		return stopHolds
	}
	if _, known := p.workers[worker]; !known {
		return stopUnknown
	}
	p.workers[worker] = time.Time{}
	p.stopped = true
	close(p.changed)
	p.changed = make(chan struct{})
	return stopDone
}
