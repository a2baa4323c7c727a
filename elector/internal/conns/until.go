package conns

import (
	"context"
	"sync"
	"time"
)

// Until is a context that ends after d. It has a timer only from when its end is waited for: most requests find their turn and
// a connection, and go at once, and a timer wakes a thread.
func Until(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	u := &until{Context: ctx, at: time.Now().Add(d)}
	return u, u.end
}

type until struct {
	context.Context //nolint:containedctx // it is one itself

	at time.Time

	mu     sync.Mutex      // guards the next two
	waited context.Context //nolint:containedctx // whose end is waited for; nil: none is
	cancel context.CancelFunc
}

func (u *until) Deadline() (time.Time, bool) { return earlier(u.Context, u.at), true }

func (u *until) Done() <-chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.waited == nil {
		u.waited, u.cancel = context.WithDeadline(u.Context, u.at)
	}
	return u.waited.Done()
}

// Err is nil for as long as Done is open: package context panics in the goroutine of a child
// that finds an ended parent without an error.
func (u *until) Err() error {
	u.mu.Lock()
	waited := u.waited
	u.mu.Unlock()
	if waited != nil {
		return waited.Err()
	}
	if err := u.Context.Err(); err != nil || time.Now().Before(u.at) {
		return err
	}
	return context.DeadlineExceeded
}

func (u *until) end() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.cancel != nil {
		u.cancel()
	}
}

// answering bounds the time for an answer. go-redis reads the deadline, and looks at nothing else once it has sent: what was sent is
// not cancelled.
type answering struct {
	context.Context //nolint:containedctx // it is one itself

	by time.Time
}

func (a answering) Deadline() (time.Time, bool) { return earlier(a.Context, a.by), true }
func (answering) Done() <-chan struct{}         { return nil }
func (answering) Err() error                    { return nil }

// earlier is at, or the deadline of ctx.
func earlier(ctx context.Context, at time.Time) time.Time {
	if end, ok := ctx.Deadline(); ok && end.Before(at) {
		return end
	}
	return at
}
