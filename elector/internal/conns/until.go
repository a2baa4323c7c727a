package conns

import (
	"context"
	"sync"
	"time"
)

// Until returns a context that ends after d. It starts a timer only when its Done channel is first
// needed: most requests are sent at once, without waiting for a connection, and a timer wakes a
// thread.
func Until(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	u := &until{Context: ctx, at: time.Now().Add(d)}
	return u, u.end
}

type until struct {
	context.Context //nolint:containedctx // it is one itself

	at time.Time

	mu     sync.Mutex      // guards the next three
	waited context.Context //nolint:containedctx // whose end is waited for; nil: none is
	cancel context.CancelFunc
	ended  bool // cancelled
}

func (u *until) Deadline() (time.Time, bool) { return earlier(u.Context, u.at), true }

func (u *until) Done() <-chan struct{} { return u.wait().Done() }

// AfterFunc serves contexts derived from this one: without it each would start a goroutine.
func (u *until) AfterFunc(f func()) (stop func() bool) { return context.AfterFunc(u.wait(), f) }

func (u *until) wait() context.Context {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.waited == nil {
		u.waited, u.cancel = context.WithDeadline(u.Context, u.at)
	}
	if u.ended {
		u.cancel()
	}
	return u.waited
}

// Err returns an error as soon as Done is closed: package context panics in a child's goroutine
// that finds its parent ended without an error.
func (u *until) Err() error {
	if err := u.Context.Err(); err != nil {
		return err
	}
	if !time.Now().Before(u.at) {
		return context.DeadlineExceeded
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ended {
		return context.Canceled
	}
	return nil
}

func (u *until) end() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ended = true
	if u.cancel != nil {
		u.cancel()
	}
}

// answering bounds the time for an answer. Once go-redis has sent a request, it reads nothing of
// the context but the deadline, and a request that was sent is not cancelled.
type answering struct {
	context.Context //nolint:containedctx // it is one itself

	by time.Time
}

func (a answering) Deadline() (time.Time, bool) { return earlier(a.Context, a.by), true }
func (answering) Done() <-chan struct{}         { return nil }
func (answering) Err() error                    { return nil }

// earlier returns the earlier of at and the deadline of ctx.
func earlier(ctx context.Context, at time.Time) time.Time {
	if end, ok := ctx.Deadline(); ok && end.Before(at) {
		return end
	}
	return at
}
