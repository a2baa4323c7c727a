//go:build !unix

package supervise

import (
	"errors"
	"syscall"
	"time"
)

// Supported reports whether this system has what running a command safely needs. The
// other commands of mandate work here.
func Supported() error { return errors.New("mandate run works on Unix only") }

// What follows only lets the rest compile.

func nanoseconds() int64 { return time.Now().UnixNano() }

// GuardMain is the guard process.
func GuardMain() {}

// ReaperMain is the reaper process.
func ReaperMain() {}

// Adopt does nothing here.
func Adopt() {}

// Dispatch finds that this process is no helper.
func Dispatch(map[string]func()) (was bool) { return false }

// Marked finds nothing here.
func Marked(...string) []Living { return nil }

// Process is a running command.
type Process struct{}

// Start can't.
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
