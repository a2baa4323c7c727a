package quorum

import (
	"context"
	"slices"
	"sync"
	"time"
)

// maxBatch is the maximum number of elections in one call. While such a call runs, a millisecond or
// two, every other client of the node waits.
const maxBatch = 256

// maxCalls is how many calls of a queue may be under way: one, and another when the first is overdue.
const maxCalls = 2

// queue sends requests of many elections to a server, as the commits of a database share one write to
// its log (group commit). A request that meets no other is sent at once. Those that arrive while a call
// is under way travel together in the next one. A call that is overdue keeps the others waiting no
// longer: its connection may be dead, and the next call takes another one.
type queue[R any] struct {
	carry   func([]R)     // makes one call, and answers each of its requests
	overdue time.Duration // how long a call may keep others waiting

	mu      sync.Mutex   // guards all below
	waiting []R          // in the order of their arrival
	calls   []*time.Time // under way: when each began
	late    *time.Timer  // runs start when a call is overdue; nil: it is not set
}

// add sends a request. It does not block.
func (q *queue[R]) add(r R) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, r)
	q.start()
}

// start makes a call for what waits, unless that has to wait. The caller holds mu.
func (q *queue[R]) start() {
	if len(q.waiting) == 0 || len(q.calls) >= maxCalls {
		return
	}
	for _, began := range q.calls {
		if left := q.overdue - time.Since(*began); left > 0 {
			q.startIn(left)
			return
		}
	}
	call := new(time.Time)
	q.calls = append(q.calls, call)
	go q.run(q.take(call), call)
}

// startIn makes start run again when the call under way is overdue. The caller holds mu.
func (q *queue[R]) startIn(d time.Duration) {
	if q.late != nil {
		return
	}
	q.late = time.AfterFunc(d, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.late = nil
		q.start()
	})
}

// take returns the requests that a call is to carry now. The caller holds mu.
func (q *queue[R]) take(call *time.Time) []R {
	n := min(len(q.waiting), maxBatch)
	all := slices.Clone(q.waiting[:n])
	q.waiting = slices.Delete(q.waiting, 0, n)
	*call = time.Now()
	return all
}

// run makes a call, and then the next one if others wait.
func (q *queue[R]) run(all []R, call *time.Time) {
	for len(all) > 0 {
		q.carry(all)
		q.mu.Lock()
		if all = q.take(call); len(all) == 0 {
			q.calls = slices.DeleteFunc(q.calls, func(other *time.Time) bool { return other == call })
		}
		q.mu.Unlock()
	}
}

// coalescer sends plain commands that are needed for many elections at once, as when an operator calls
// the roll of all elections, through a queue.
type coalescer[Q, A any] struct {
	queue queue[*asked[Q, A]]
	// send makes one call for all queries. It returns an answer and an error for each, in order.
	send func(ctx context.Context, all []Q) ([]A, []error)
}

type asked[Q, A any] struct {
	ctx    context.Context //nolint:containedctx // of its caller: nothing is sent after its end
	query  Q
	answer A
	err    error
	done   chan struct{} // closed when answer and err are set
}

func newCoalescer[Q, A any](send func(ctx context.Context, all []Q) ([]A, []error)) *coalescer[Q, A] {
	c := &coalescer[Q, A]{send: send}
	c.queue.carry, c.queue.overdue = c.carry, stepTimeout
	return c
}

// Do returns the answer to a query, or an error when ctx, which must have a deadline, ends first.
func (c *coalescer[Q, A]) Do(ctx context.Context, query Q) (A, error) {
	p := &asked[Q, A]{ctx: ctx, query: query, done: make(chan struct{})}
	c.queue.add(p)
	select {
	case <-p.done:
		return p.answer, p.err
	case <-ctx.Done():
		var none A
		return none, ctx.Err()
	}
}

// carry makes one call for those queries whose callers still wait, until the latest of their deadlines.
func (c *coalescer[Q, A]) carry(all []*asked[Q, A]) {
	all = slices.DeleteFunc(all, func(p *asked[Q, A]) bool { return p.ctx.Err() != nil })
	if len(all) == 0 {
		return
	}
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
	answers, errs := c.send(ctx, queries)
	for i, p := range all {
		p.answer, p.err = answers[i], errs[i]
		close(p.done)
	}
}
