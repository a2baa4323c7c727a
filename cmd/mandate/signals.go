package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"
)

// echo is how soon after the first signal another one counts as the same request. A wrapper that
// signals both this process and its group (timeout, npm) must not cause the command to be killed
// without its grace.
const echo = 500 * time.Millisecond

// onSignals has the first signal call stop, for a graceful shutdown, and the second one close
// force; effect is logged with it. SIGQUIT is what many images stop their program with; also are more
// signals that stop. The returned function stops the handling of signals.
func (t *terminal) onSignals(stop func(os.Signal), effect string, also ...os.Signal) (force <-chan struct{}, end func()) {
	again := make(chan struct{})
	sigs := make(chan os.Signal, 8)
	also = slices.DeleteFunc(also, signal.Ignored) // nohup makes this process ignore SIGHUP
	signal.Notify(sigs, append(also, syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT)...)
	go func() {
		var first time.Time
		for s := range sigs {
			switch {
			case first.IsZero():
				first = time.Now()
				stop(s) // before logging, which may be slow
				t.log.Info("shutting down", "signal", s.String())
			case time.Since(first) >= echo:
				close(again)
				t.log.Warn("second signal", "signal", s.String(), "effect", effect)
				return
			}
		}
	}()
	return again, func() {
		signal.Stop(sigs)
		close(sigs)
	}
}

// forcedRelease is how long a release may take after a second signal. It is enough on a busy
// machine: a lock that is not released keeps the other candidates waiting for its lease.
const forcedRelease = 2 * time.Second

// untilForced campaigns until that ends. After a second signal it waits until no work runs, and then
// for at most forcedRelease, and so never for an unreachable Redis.
func untilForced(force <-chan struct{}, ready func(), working sync.Locker, campaign func() error) error {
	ended := make(chan error, 1)
	go func() { ended <- campaign() }()
	go ready()
	select {
	case err := <-ended:
		return err
	case <-force:
	}
	working.Lock()
	defer working.Unlock()
	select {
	case err := <-ended:
		return err
	case <-time.After(forcedRelease):
		return &exitError{code: exitNotReleased, err: errors.New("the lock was not released before the second signal; it lapses within a lease")}
	}
}

// untilSignal returns a context that the first SIGINT or SIGTERM ends. A second one ends the process.
func untilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// sendTo sends a value unless ctx ends before.
func sendTo[T any](ctx context.Context, to chan<- T, v T) {
	select {
	case to <- v:
	case <-ctx.Done():
	}
}
