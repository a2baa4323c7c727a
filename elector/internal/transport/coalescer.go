package transport

import (
	"context"
	"sync"
	"time"
)

// maxCoalesced is the maximum number of requests in one call: few enough to occupy the server for much
// less than a millisecond.
const maxCoalesced = 256

// Coalescer sends small requests that are made for many elections at once to one node, as when an
// operator calls the roll of all elections. One call is under way at a time; requests that arrive
// meanwhile travel together in the next, so that a node that hangs delays all of them only once.
type Coalescer[Q, A any] struct {
	// Send makes one call for all queries. It returns an answer and an error for each, in order.
	Send func(ctx context.Context, all []Q) ([]A, []error)

	mu      sync.Mutex // of all below
	waiting []*pendingQuery[Q, A]
	busy    bool
}

type pendingQuery[Q, A any] struct {
	ctx    context.Context
	query  Q
	answer A
	err    error
	done   chan struct{} // closed when answer and err are set
}

// Do returns the answer to a query, or an error when ctx, which must have a deadline, ends first.
func (j *Coalescer[Q, A]) Do(ctx context.Context, query Q) (A, error) {
	p := &pendingQuery[Q, A]{ctx: ctx, query: query, done: make(chan struct{})}
	j.mu.Lock()
	j.waiting = append(j.waiting, p)
	if !j.busy {
		j.busy = true
		go j.run()
	}
	j.mu.Unlock()
	select {
	case <-p.done:
		return p.answer, p.err
	case <-ctx.Done():
		var none A
		return none, ctx.Err()
	}
}

func (j *Coalescer[Q, A]) run() {
	for all := j.next(); len(all) > 0; all = j.next() {
		j.carry(all)
	}
}

// next takes the queries whose callers still wait. When there are none it clears busy.
func (j *Coalescer[Q, A]) next() (all []*pendingQuery[Q, A]) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for len(j.waiting) > 0 && len(all) < maxCoalesced {
		if p := j.waiting[0]; p.ctx.Err() == nil {
			all = append(all, p)
		}
		j.waiting[0] = nil
		j.waiting = j.waiting[1:]
	}
	j.busy = len(all) > 0
	return all
}

// carry makes one call for these queries. It waits until the latest of their deadlines.
func (j *Coalescer[Q, A]) carry(all []*pendingQuery[Q, A]) {
	queries := make([]Q, len(all))
	var until time.Time
	for i, p := range all {
		queries[i] = p.query
		if at, _ := p.ctx.Deadline(); at.After(until) {
			until = at
		}
	}
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	answers, errs := j.Send(ctx, queries)
	for i, p := range all {
		p.answer, p.err = answers[i], errs[i]
		close(p.done)
	}
}
