package transport

import (
	"context"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/conns"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// Request is what one election requests of a node. Whoever carries it shares no more with those that travel with
// it than the way: it is asked for its arguments when it is sent, and has an outcome of its own.
type Request struct {
	ctx  context.Context //nolint:containedctx // of its caller: nothing is sent after its end
	keys []string
	made func() []any  // its arguments; nil: it is not wanted any more
	done chan struct{} // closed with its outcome, where another goroutine carries it

	// Of one that no goroutine waits for (Sender.Post).
	requester Requester // in place of made
	until     time.Time // its ctx has no end

	mu        sync.Mutex // guards the next two
	withdrawn bool       // its caller has left: it has no outcome
	committed bool       // its caller waits for its outcome

	// Of the goroutine that carries it.
	with  []any
	sent  time.Time
	ended bool

	outcome Outcome // until done is closed of that goroutine, from then on of the caller
}

// Requester is who made a request that no goroutine waits for.
type Requester interface {
	Args() []any  // nil: it is not wanted any more
	Then(Outcome) // once, on the goroutine of its call, which serves other elections too: it must not block
	Carried()     // when the call that it was in has ended, unless it was withdrawn or late: nothing here uses it any more
}

// Outcome is what has come of a request.
type Outcome struct {
	Answer  protocol.Answer
	Sent    time.Time
	Took    time.Duration
	Dropped bool // it was not wanted any more
}

// NotSent is the outcome of a request whose time was over before.
func NotSent() Outcome {
	return Outcome{Answer: protocol.Answer{Status: protocol.Unknown, Err: context.DeadlineExceeded, Waiters: -1, Subscribers: -1}}
}

// NewRequest is one of a caller that waits for the outcome. args makes its arguments when it is sent; nil: it is not wanted any more.
func NewRequest(ctx context.Context, keys []string, args func() []any) *Request {
	return &Request{ctx: ctx, keys: keys, made: args}
}

// Of makes it one that no goroutine waits for: by gets the outcome.
func (r *Request) Of(keys []string, by Requester) { r.keys, r.requester = keys, by }

// args are made when it is sent.
func (r *Request) args() []any {
	if r.requester != nil {
		return r.requester.Args()
	}
	return r.made()
}

// context ends with the time that its caller gives it.
func (r *Request) context() (context.Context, context.CancelFunc) {
	if r.requester != nil {
		return conns.Until(r.ctx, time.Until(r.until))
	}
	return r.ctx, func() {}
}

// wait returns the outcome; not ok when the caller's time was over before it was sent. What was sent is waited for: what comes
// after it must not overtake it.
func (r *Request) wait() (o Outcome, ok bool) {
	select {
	case <-r.done:
		return r.outcome, true
	case <-r.ctx.Done():
	}
	if r.withdraw() {
		return NotSent(), false
	}
	<-r.done
	return r.outcome, true
}

// withdraw is the end of its caller's time; false when it was sent before that, or withdrawn.
func (r *Request) withdraw() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.committed || r.withdrawn {
		return false
	}
	r.withdrawn = true
	return true
}

// late reports whether the time of a request that no goroutine waits for is over.
func (r *Request) late(now time.Time) bool { return r.requester != nil && !now.Before(r.until) }

// prepare makes the arguments, and ends a request that is not wanted any more.
func (r *Request) prepare() (ok bool) {
	if r.ended {
		return false
	}
	now := time.Now()
	if !r.uncommit() || r.ctx.Err() != nil || r.late(now) {
		r.end(NotSent())
		return false
	}
	r.sent = now
	if r.with = r.args(); r.with == nil {
		o := NotSent()
		o.Dropped = true
		r.end(o)
		return false
	}
	return true
}

func (r *Request) uncommit() (wanted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.committed = false
	return !r.withdrawn
}

// wanted is asked when there is a connection for it. Time has passed since its arguments were made if it had to wait
// for that.
func (r *Request) wanted(waited bool) bool {
	return !waited || r.ctx.Err() == nil && !r.late(time.Now()) && r.args() != nil
}

// commit is the last moment before it is sent: from then on it is not withdrawn.
func (r *Request) commit(waited bool) (ok bool) {
	if r.ended { // by the first of two calls for its batch
		return true
	}
	if !r.wanted(waited) {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.committed = !r.withdrawn
	return r.committed
}

// end gives a request its outcome, unless its caller has stopped waiting.
func (r *Request) end(o Outcome) {
	r.ended = true
	if o.Sent = r.sent; !o.Sent.IsZero() {
		o.Took = time.Since(o.Sent)
	}
	r.mu.Lock()
	withdrawn := r.withdrawn
	r.committed = true
	r.mu.Unlock()
	switch {
	case withdrawn:
	case r.requester != nil:
		r.requester.Then(o)
	default:
		r.outcome = o
		close(r.done)
	}
}
