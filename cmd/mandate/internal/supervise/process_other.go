//go:build !unix

package supervise

import (
	"errors"
	"syscall"
	"time"
)

// Supported returns an error if this system lacks what is needed to run a command safely. The other
// subcommands of mandate work here.
func Supported() error { return errors.New("mandate run works on Unix only") }

// The declarations below only make the other files compile.

func nanoseconds() int64 { return time.Now().UnixNano() }

// Adopt does nothing here.
func Adopt() {}

// Dispatch returns false: this system has no helper.
func Dispatch() (was bool) { return false }

// Process is a running command.
type Process struct{}

// Start returns an error.
func Start(Command, Instant) (*Process, error) { return nil, Supported() }

func (*Process) PID() int                                         { return 0 }
func (*Process) Exited() <-chan struct{}                          { return nil }
func (*Process) Status() (ws syscall.WaitStatus)                  { return ws }
func (*Process) Stopped() <-chan syscall.Signal                   { return nil }
func (*Process) HasExited() bool                                  { return true }
func (*Process) Extend(Instant)                                   {}
func (*Process) Until() Instant                                   { return 0 }
func (*Process) KilledByHelper() bool                             { return false }
func (*Process) HelperKilled() bool                               { return false }
func (*Process) Report([]byte)                                    {}
func (*Process) Terminate()                                       {}
func (*Process) AwaitGone(<-chan time.Time, <-chan struct{}) bool { return true }
func (*Process) Kill(<-chan time.Time) bool                       { return true }
func (*Process) Left() []Living                                   { return nil }
func (*Process) Close()                                           {}
