package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// echo is how soon after the first signal another one counts as the same request. A wrapper that
// signals both this process and its group (timeout, npm) must not cause the command to be killed
// without its grace.
const echo = 500 * time.Millisecond

// onSignals has the first signal call stop, for a graceful shutdown, and the second one close
// force; effect is logged with it. The returned function stops the handling of signals.
func (a *app) onSignals(stop context.CancelFunc, effect string) (force <-chan struct{}, end func()) {
	again := make(chan struct{})
	sigs := make(chan os.Signal, 8)
	signal.Notify(sigs, syscall.SIGTERM, syscall.SIGINT)
	if !signal.Ignored(syscall.SIGHUP) { // nohup has made this process ignore SIGHUP
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
					stop() // before logging, which may be slow
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

// forcedRelease is how long a release may take after a second signal. It is enough on a busy
// machine: a lock that is not released keeps the other candidates waiting for its lease.
const forcedRelease = 2 * time.Second

// awaitForced waits for the end of a program whose work has ended after a second signal. It waits
// at most forcedRelease, and so never for an unreachable Redis.
func awaitForced(ended <-chan error) error {
	select {
	case err := <-ended:
		return err
	case <-time.After(forcedRelease):
		return &exitError{code: exitNotReleased, err: errors.New("the lock was not released before the second signal; it lapses within a lease")}
	}
}
