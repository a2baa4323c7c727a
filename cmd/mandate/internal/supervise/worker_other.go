//go:build !linux

package supervise

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"
)

// Worker can't be supervised here: without subreapers no process can know that everything that the
// worker has started is gone.
type Worker struct{ PID int }

// StartWorker returns an error.
func StartWorker(Command, string) (*Worker, error) {
	return nil, errors.New("mandate supervise works on Linux only")
}

// ReportPipe returns an error.
func ReportPipe(int) (r, w *os.File, name string, err error) {
	return nil, nil, "", errors.ErrUnsupported
}

// ReadNow returns nothing.
func ReadNow(*os.File) []byte { return nil }

// Follow does nothing.
func (*Worker) Follow(func(io.Reader) error) error { return nil }

// Exited returns nil, which is never closed.
func (*Worker) Exited() <-chan struct{} { return nil }

// Stopped returns nil, which never receives.
func (*Worker) Stopped() <-chan syscall.Signal { return nil }

// Status returns the zero status.
func (*Worker) Status() (ws syscall.WaitStatus) { return ws }

// PassSignals does nothing.
func (*Worker) PassSignals(func()) (end func()) { return func() {} }

// KillRest returns false.
func (*Worker) KillRest(time.Duration) bool { return false }

// Left returns nothing.
func (*Worker) Left() []Living { return nil }
