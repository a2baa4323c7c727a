//go:build !linux

package supervise

import (
	"errors"
	"io"
	"syscall"
	"time"
)

// Worker can't be supervised here: without subreapers no process can know that everything it
// has started is gone.
type Worker struct{ PID int }

// StartWorker can't.
func StartWorker(Command, string) (*Worker, error) {
	return nil, errors.New("mandate supervise works on Linux only")
}

// Follow reads nothing.
func (*Worker) Follow(func(io.Reader) error) error { return nil }

// Exited is never closed.
func (*Worker) Exited() <-chan struct{} { return nil }

// Stopped never receives.
func (*Worker) Stopped() <-chan syscall.Signal { return nil }

// Status is none.
func (*Worker) Status() (ws syscall.WaitStatus) { return ws }

// PassSignals does nothing.
func (*Worker) PassSignals(func()) (end func()) { return func() {} }

// KillRest does nothing.
func (*Worker) KillRest(time.Duration) bool { return false }

// Left is nothing.
func (*Worker) Left() []Living { return nil }
