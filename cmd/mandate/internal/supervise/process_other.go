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

// GuardMain is the main function of the guard process.
func GuardMain() {}

// ReaperMain is the main function of the reaper process.
func ReaperMain() {}

// Adopt does nothing here.
func Adopt() {}

// Dispatch returns false: this system has no helpers.
func Dispatch(map[string]func()) (was bool) { return false }

// Marked finds nothing here.
func Marked(...string) []Living { return nil }

// Process is a running command.
type Process struct{}

// Start returns an error.
func Start(Command, Instant) (*Process, error) { return nil, Supported() }

func (*Process) PID() int                                         { return 0 }
func (*Process) Exited() <-chan struct{}                          { return nil }
func (*Process) Status() (ws syscall.WaitStatus)                  { return ws }
func (*Process) Stopped() <-chan syscall.Signal                   { return nil }
func (*Process) HasExited() bool                                  { return true }
func (*Process) Cgroup() (string, error)                          { return "", nil }
func (*Process) Extend(Instant)                                   {}
func (*Process) Until() Instant                                   { return 0 }
func (*Process) GuardGone() <-chan struct{}                       { return nil }
func (*Process) GuardPID() int                                    { return 0 }
func (*Process) ReplaceGuard() error                              { return Supported() }
func (*Process) GuardHasKilled() bool                             { return false }
func (*Process) KilledByGuard() bool                              { return false }
func (*Process) Terminate()                                       {}
func (*Process) AwaitGone(<-chan time.Time, <-chan struct{}) bool { return true }
func (*Process) Kill(<-chan time.Time) bool                       { return true }
func (*Process) Left() []Living                                   { return nil }
func (*Process) Close()                                           {}
