package electorhttp

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/supervised"
)

// promises are the promises that /leader has made about one term: its lock is not
// released before the last one has lapsed. Times are of the monotonic clock. The
// worker's clock is of the same machine, or has at least the same rate.
type promises struct {
	election *elector.Election
	token    uint64

	mu       sync.Mutex // guards all below
	closed   bool       // no more promises are made: the term or its work has ended
	until    time.Time  // when the last promise lapses
	reported time.Time  // the supervisor of this process, if there is one, does not release the term before
}

// Work wraps work so that the lock is not released before all promises that /leader
// made about the term have lapsed. That takes at most Config.Promise after work has
// returned, or after the term's end if that is earlier. Without Work, /leader promises
// nothing: valid_for_ms is 0.
func (h *Handler) Work(work elector.Work) elector.Work {
	return func(ctx context.Context, term *elector.Term) error {
		p := &promises{election: h.elector.Election(), token: term.Token()}
		h.promised.Store(p)
		defer p.lapse() // also when the work panics
		return work(ctx, term)
	}
}

// lapse makes no more promises, and returns when all of them have lapsed.
func (p *promises) lapse() {
	p.mu.Lock()
	p.closed = true // so until does not change any more
	until := p.until
	p.mu.Unlock()
	time.Sleep(time.Until(until))
}

// give makes a promise of at most most, for how long the worker may work, and records it before it is
// sent. The mutex is held for both give and lapse, so a promise is either waited for, or not made. ok is
// false when the term, or its work, has ended.
func (p *promises) give(term *elector.Term, most time.Duration) (valid time.Duration, ok bool) {
	if p == nil || p.token != term.Token() {
		return 0, true // without Work, nothing would keep the promise
	}
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
	if !p.report(until) {
		return 0, true
	}
	if until.After(p.until) {
		p.until = until
	}
	return valid, true
}

// report lets the supervisor of this process, if there is one, wait for a promise when this process was
// killed. It reports a little more than needed, so that not every request writes a report.
func (p *promises) report(until time.Time) bool {
	if !until.After(p.reported) {
		return true
	}
	now := time.Now()
	ahead := until.Sub(now) * 9 / 8
	if !supervised.Inherit().Promised(p.election.Prefix(), p.election.Name(), p.token, ahead) {
		return false
	}
	p.reported = now.Add(ahead)
	return true
}

// requested returns for how long a request wants a promise, at most.
func (h *Handler) requested(r *http.Request) (time.Duration, error) {
	if r.Method == http.MethodHead { // the answer has no body for valid_for_ms
		return 0, nil
	}
	s := r.URL.Query().Get("valid_for_ms")
	if s == "" {
		return h.cfg.Promise, nil
	}
	ms, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return 0, errors.New("valid_for_ms must be a number of milliseconds: how long the answer should be good for, at most")
	}
	return min(h.cfg.Promise, time.Duration(ms)*time.Millisecond), nil
}
