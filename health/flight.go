package health

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// flight lets at most one call of a probe run at a time. It exists because a call that
// ignores its context can't be ended: without a flight every interval would leave one more
// goroutine behind.
//
// A caller that finds a call running waits for its end, and then makes one of its own: an answer to
// somebody else may be too old. Once a call has outlived the deadline of a caller it is overdue: other
// callers get an error at once, and no second call starts until it has returned.
type flight struct {
	mu      sync.Mutex
	current *call // nil when none runs
}

type call struct {
	began   time.Time
	done    chan struct{} // closed when the call has returned
	err     error         // valid after done
	overdue bool          // guarded by flight.mu
}

// check runs p. It returns at the latest grace after ctx has
// ended; grace gives a probe that respects ctx the time to report why it was slow.
func (f *flight) check(ctx context.Context, p Probe, grace time.Duration) error {
	if n, ok := p.(*named); ok {
		// The flight reports a hang or a panic, and Named inside of the call can't name it.
		return n.prefix(f.check(ctx, n.probe, grace))
	}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		c, mine, overdue := f.join(ctx, p)
		if overdue {
			return fmt.Errorf("no answer for %s: the call from %s still hangs, not repeated",
				short(time.Since(c.began)), c.began.UTC().Format("15:04:05Z"))
		}
		if err := f.wait(ctx, c, grace); mine || ctx.Err() != nil {
			return err
		}
	}
}

func (f *flight) join(ctx context.Context, p Probe) (c *call, mine, overdue bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.current != nil {
		return f.current, false, f.current.overdue
	}
	c = &call{began: time.Now(), done: make(chan struct{})}
	f.current = c
	go f.run(ctx, c, p)
	return c, true, false
}

// run is the only place that calls a probe. What a probe does to its goroutine (panic,
// runtime.Goexit) must neither end the process nor leave the flight taken for ever.
func (f *flight) run(ctx context.Context, c *call, p Probe) {
	err := errors.New("the probe ended its goroutine (runtime.Goexit)")
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
		f.mu.Lock()
		f.current = nil // first: a caller that reads the answer may run the probe again at once
		f.mu.Unlock()
		c.err = err
		close(c.done)
	}()
	if p == nil {
		err = errNilProbe
		return
	}
	err = p.Check(ctx)
}

func (f *flight) wait(ctx context.Context, c *call, grace time.Duration) error {
	select {
	case <-c.done:
	case <-ctx.Done():
		select {
		case <-c.done:
		case <-time.After(grace):
		}
	}
	select { // after a pause of the process several may be ready: then the answer counts
	case <-c.done:
		return c.answer(ctx, grace)
	default:
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		f.mu.Lock()
		c.overdue = true
		f.mu.Unlock()
	}
	return c.noAnswer(ctx, grace)
}

// answer returns the probe's error. It replaces a bare "context deadline exceeded", which
// explains nothing.
func (c *call) answer(ctx context.Context, grace time.Duration) error {
	if c.err != nil && c.err == ctx.Err() { //nolint:errorlint // a wrapped one has its own text
		return c.noAnswer(ctx, grace)
	}
	return c.err
}

func (c *call) noAnswer(ctx context.Context, grace time.Duration) error {
	if deadline, ok := ctx.Deadline(); ok && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("no answer within %s: %w", short(deadline.Sub(c.began)+grace), ctx.Err())
	}
	return fmt.Errorf("given up after %s: %w", short(time.Since(c.began)), ctx.Err())
}

// idle returns a channel that is closed when the call that runs now has returned, and nil
// when none runs.
func (f *flight) idle() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.current == nil {
		return nil
	}
	return f.current.done
}

// FromCheck makes a [Probe] from a check without a context, such as any Check of
// github.com/heptiolabs/healthcheck.
//
// As the check can't be ended, it runs in its own goroutine. Check returns as soon as
// ctx has ended; while the check hangs beyond that, further calls fail at once, reporting
// since when, and no second goroutine starts. Callers at the same time take turns.
//
// Give it the check itself, not one wrapped by healthcheck.Async: Async keeps returning
// its last OK while the check inside hangs, which no caller can see. The [Runner] does what
// Async is for.
func FromCheck(check func() error) Probe {
	c := &member{}
	if check != nil {
		c.probe = Func(func(context.Context) error { return check() })
	}
	return c
}

func (c *member) Check(ctx context.Context) error { return c.flight.check(ctx, c.probe, 0) }
