//go:build !linux

package supervise

import (
	"errors"

	"github.com/mandate-dev/mandate/elector/supervisor"
)

// Worker can't be supervised here: without subreapers no process can know that everything that the
// worker has started is gone.
type Worker struct {
	Process
	Terms supervisor.Terms
}

// StartWorker returns an error.
func StartWorker(string, []string) (*Worker, error) {
	return nil, errors.New("mandate supervise works on Linux only")
}

// PassSignals does nothing.
func (*Worker) PassSignals(func()) (end func()) { return func() {} }

// Await returns false.
func (*Worker) Await() (gone, closed bool) { return false, false }
