//go:build linux

package chaos

import (
	"runtime"
	"testing"
)

// newSpawner starts processes on one thread: Pdeathsig is sent when the thread that started a child ends.
func newSpawner(t *testing.T) func(func() error) error {
	calls, stopped := make(chan func()), make(chan struct{})
	go func() {
		defer close(stopped)
		runtime.LockOSThread()
		for f := range calls {
			f()
		}
		runtime.UnlockOSThread()
	}()
	t.Cleanup(func() { close(calls); <-stopped })
	return func(f func() error) error {
		done := make(chan error)
		calls <- func() { done <- f() }
		return <-done
	}
}
