package electorhttp

import (
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// Limits of workers and their names, in bytes. A name also keeps other programs from
// reporting that the worker has stopped, so it must not be easy to guess.
const (
	minWorker  = 8
	maxWorker  = 64
	maxWorkers = 64 // workers with a name, in one term; promises to further ones can only lapse
)

// promises are the promises that /leader has made about one term: its lock is not
// released before a worker's permission to work has lapsed, or the worker has
// reported that it has stopped. Times are of the monotonic clock. The worker's clock is
// of the same machine, or has at least the same rate.
type promises struct {
	token uint64

	mu      sync.Mutex           // guards all below
	closed  bool                 // no more promises are made: the term or its work has ended
	unnamed time.Time            // when the last promise to a request without a worker's name lapses
	workers map[string]time.Time // when the last promise to each worker lapses; zero: it has stopped
	stopped bool                 // at least one worker has reported that it has stopped
	changed chan struct{}        // closed each time that a worker reports that it has stopped
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

// close makes no more promises. until is when the last promise lapses.
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

// give makes a promise of at most most, and records it before it is sent to the
// worker. The mutex is held for both give and close, so a promise is either waited for,
// or not made. ok is false when the term, or its work, has ended.
func (p *promises) give(term *elector.Term, worker string, most time.Duration) (valid time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || !term.Valid() {
		return 0, false
	}
	// Whole milliseconds, as in the answer: the fraction that is cut off is never promised.
	valid = min(term.Left(), most).Truncate(time.Millisecond)
	if valid <= 0 {
		return 0, true
	}
	// The worker counts from before its request, so its permission ends no later than this.
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

// stop gives back a worker's promise. over: the term has ended.
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
