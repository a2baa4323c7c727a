package quorum

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
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

// idle reports whether nothing waits, and no call is under way.
func (q *queue[R]) idle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting) == 0 && len(q.calls) == 0
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

// commands sends plain commands that are needed for many elections at once, as when an operator calls
// the roll of all elections, through a queue.
type commands struct {
	queue queue[*asked]
	rdb   redis.UniversalClient
}

// asked are commands that travel together.
type asked struct {
	ctx  context.Context //nolint:containedctx // of its caller: nothing is sent after its end
	cmds []redis.Cmder
	done chan struct{} // closed when they are answered
}

func newCommands(rdb redis.UniversalClient) *commands {
	c := &commands{rdb: rdb}
	c.queue.carry, c.queue.overdue = c.carry, stepTimeout
	return c
}

// do blocks until the commands are answered, and returns the error of the first that failed, or until
// ctx, which must have a deadline, ends; then they must not be looked at any more.
func (c *commands) do(ctx context.Context, cmds ...redis.Cmder) error {
	a := &asked{ctx, cmds, make(chan struct{})}
	c.queue.add(a)
	select {
	case <-a.done:
		for _, cmd := range cmds {
			if cmd.Err() != nil {
				return cmd.Err()
			}
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// carry makes one call for those commands whose callers still wait, until the latest of their deadlines.
func (c *commands) carry(all []*asked) {
	p, until := c.rdb.Pipeline(), time.Time{}
	all = slices.DeleteFunc(all, func(a *asked) bool { return a.ctx.Err() != nil })
	for _, a := range all {
		for _, cmd := range a.cmds {
			_ = p.Process(a.ctx, cmd)
		}
		if at, _ := a.ctx.Deadline(); at.After(until) {
			until = at
		}
	}
	if len(all) == 0 {
		return
	}
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	_, _ = p.Exec(ctx) // each command has its own error
	for _, a := range all {
		close(a.done)
	}
}
