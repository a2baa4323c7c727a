package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// echo is how soon after the first signal another one is the same request: a wrapper that
// signals both this process and its group (timeout, npm) must not have the command killed
// without its grace.
const echo = 500 * time.Millisecond

// onSignals makes the first signal stop the program in an orderly way, and the second one
// close force, whose effect is logged. The returned function ends that.
func (a *app) onSignals(stop context.CancelFunc, effect string) (force <-chan struct{}, end func()) {
	again := make(chan struct{})
	sigs := make(chan os.Signal, 8)
	signal.Notify(sigs, syscall.SIGTERM, syscall.SIGINT)
	if !signal.Ignored(syscall.SIGHUP) { // nohup means it
		signal.Notify(sigs, syscall.SIGHUP)
	}
	done := make(chan struct{})
	go func() {
		var first time.Time
		forced := false
		for {
			select {
			case s := <-sigs:
				switch {
				case first.IsZero():
					first = time.Now()
					stop() // first: a log is slower than anything
					a.log.Info("shutting down", "signal", s.String())
				case !forced && time.Since(first) >= echo:
					forced = true
					close(again)
					a.log.Warn("second signal", "signal", s.String(), "effect", effect)
				}
			case <-done:
				return
			}
		}
	}()
	return again, func() {
		signal.Stop(sigs)
		close(done)
	}
}

// forcedRelease is what a release gets after a second signal: enough on a busy machine, for a
// lock that is not released keeps the others waiting for its lease.
const forcedRelease = 2 * time.Second

// awaitForced waits for the end of a program whose work has ended after a second signal,
// and no longer: not for a Redis that is away.
func awaitForced(ended <-chan error) error {
	select {
	case err := <-ended:
		return err
	case <-time.After(forcedRelease):
		return &exitError{code: exitNotReleased, err: errors.New("the lock was not released before the second signal; it lapses within a lease")}
	}
}
