package transport

import (
	"context"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// Request is one election's request to a node. It shares nothing but the call with the requests that
// travel with it: its arguments are made when it is sent, and it has an outcome of its own.
type Request struct {
	ctx      context.Context //nolint:containedctx // of its caller: nothing is sent after its end
	keys     []string
	makeArgs func() []any  // makes the arguments; a nil result: the request is no longer wanted
	done     chan struct{} // closed when outcome is set, if another goroutine sends the request

	// Only for a request that no goroutine waits for (Sender.Post).
	requester Requester // replaces makeArgs, and gets the outcome
	until     time.Time // the request is not sent after this; its ctx has no end

	mu        sync.Mutex // guards the next two
	withdrawn bool       // taken back before it was sent: end discards its outcome
	committed bool       // about to be sent, or ended: it can't be withdrawn

	// Owned by the goroutine that sends the request.
	sentArgs []any     // the arguments
	sent     time.Time // just before they were made
	ended    bool      // it has its outcome

	outcome Outcome // owned by the sending goroutine until done is closed, then by the caller
}

// Requester makes the arguments of a request that no goroutine waits for (Sender.Post), and gets its
// outcome.
type Requester interface {
	// Args returns the arguments; nil: the request is no longer wanted.
	Args() []any
	// Done is called once, with the outcome, on a goroutine that serves other elections too (of the
	// call, or of a timer if the request was not sent in time). It must not block.
	Done(Outcome)
	// CallEnded is called when the call of the request has ended, and nothing here uses the request
	// any more. It is not called for a request whose time was over before that.
	CallEnded()
}

// Outcome is the outcome of a request.
type Outcome struct {
	Answer  protocol.Answer
	Sent    time.Time
	Took    time.Duration
	Dropped bool // the request was no longer wanted
}

// NotSent returns the outcome of a request that was not sent in its time.
func NotSent() Outcome {
	return Outcome{Answer: protocol.Answer{Status: protocol.Unknown, Err: context.DeadlineExceeded, Waiters: -1, Subscribers: -1}}
}

// NewRequest returns a request for Send, whose caller waits for the outcome. args makes the arguments
// when the request is sent; if it returns nil, the request is no longer wanted, and dropped.
func NewRequest(ctx context.Context, keys []string, args func() []any) *Request {
	return &Request{ctx: ctx, keys: keys, makeArgs: args}
}

// Init prepares the request for Post: by makes its arguments and gets its outcome.
func (r *Request) Init(keys []string, by Requester) { r.keys, r.requester = keys, by }

// args makes the arguments, when the request is sent.
func (r *Request) args() []any {
	if r.requester != nil {
		return r.requester.Args()
	}
	return r.makeArgs()
}

// context returns a context that ends when the caller's time for the request is over.
func (r *Request) context() (context.Context, context.CancelFunc) {
	if r.requester != nil {
		return context.WithTimeout(r.ctx, time.Until(r.until))
	}
	return r.ctx, func() {}
}

// wait returns the outcome; ok is false if the caller's time was over before the request was sent.
// It always waits for a request that was sent, so that the election's next one can't overtake it.
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

// withdraw takes the request back when its caller's time is over. It returns false if the request is
// committed or was withdrawn before.
func (r *Request) withdraw() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.committed || r.withdrawn {
		return false
	}
	r.withdrawn = true
	return true
}

// late reports whether the request was posted and its time is over.
func (r *Request) late(now time.Time) bool { return r.requester != nil && !now.Before(r.until) }

// prepare makes the arguments, and reports whether the request is to be sent. It ends a request that
// is late or no longer wanted.
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
	if r.sentArgs = r.args(); r.sentArgs == nil {
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

// commit is called last before the request is sent, and reports whether it may be. From then on the
// request can't be withdrawn.
func (r *Request) commit() (ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.committed = !r.withdrawn
	return r.committed
}

// end gives the request its outcome, unless it was withdrawn.
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
		r.requester.Done(o)
	default:
		r.outcome = o
		close(r.done)
	}
}
