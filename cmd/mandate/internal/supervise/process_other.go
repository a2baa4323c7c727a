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

// Dispatch returns false: this system has no helper.
func Dispatch() (was bool) { return false }

// Helper can't run here.
type Helper struct{}

// NewHelper returns an error.
func NewHelper() (*Helper, error) { return nil, Supported() }

func (*Helper) Pipe() (string, error)                     { return "", Supported() }
func (*Helper) Begin(Setup) error                         { return Supported() }
func (*Helper) Start([]string, Instant) (*Process, error) { return nil, Supported() }
func (*Helper) Close()                                    {}

// Process is a running command.
type Process struct{}

func (*Process) PID() int                                         { return 0 }
func (*Process) Exited() <-chan struct{}                          { return nil }
func (*Process) Status() (ws syscall.WaitStatus)                  { return ws }
func (*Process) Stopped() <-chan syscall.Signal                   { return nil }
func (*Process) HasExited() bool                                  { return true }
func (*Process) Extend(Instant)                                   {}
func (*Process) Stop(Instant)                                     {}
func (*Process) Until() Instant                                   { return 0 }
func (*Process) KilledByHelper() bool                             { return false }
func (*Process) HelperKilled() bool                               { return false }
func (*Process) AwaitGone(<-chan time.Time, <-chan struct{}) bool { return true }
func (*Process) Left() string                                     { return "" }
