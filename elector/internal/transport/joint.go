package transport

import (
	"context"
	"sync"
	"time"
)

// maxJoint is how many requests travel in one call: little enough to keep the server for much
// less than a millisecond.
const maxJoint = 256

// Joint is the way of small requests to a node that are made for many elections at once, as
// when an operator calls the roll of all. One call is under way at a time; those that come meanwhile
// travel together in the next, so that a node that hangs delays all of them once.
type Joint[Q, A any] struct {
	// Send makes one call for all; it returns an answer and an error for each, in their order.
	Send func(ctx context.Context, all []Q) ([]A, []error)

	mu      sync.Mutex // of all below
	waiting []*passenger[Q, A]
	busy    bool
}

type passenger[Q, A any] struct {
	ctx    context.Context
	query  Q
	answer A
	err    error
	done   chan struct{} // closed when answer and err are set
}

// Do returns the answer, or an error when ctx, which has a deadline, ends first.
func (j *Joint[Q, A]) Do(ctx context.Context, query Q) (A, error) {
	p := &passenger[Q, A]{ctx: ctx, query: query, done: make(chan struct{})}
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

func (j *Joint[Q, A]) run() {
	for all := j.next(); len(all) > 0; all = j.next() {
		j.carry(all)
	}
}

// next takes those that still wait for an answer; busy ends when there are none.
func (j *Joint[Q, A]) next() (all []*passenger[Q, A]) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for len(j.waiting) > 0 && len(all) < maxJoint {
		if p := j.waiting[0]; p.ctx.Err() == nil {
			all = append(all, p)
		}
		j.waiting[0] = nil
		j.waiting = j.waiting[1:]
	}
	j.busy = len(all) > 0
	return all
}

// carry waits as long as the most patient of them.
func (j *Joint[Q, A]) carry(all []*passenger[Q, A]) {
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
