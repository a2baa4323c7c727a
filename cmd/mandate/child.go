//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"
)

// child is the running command: the leader of a process group of its own.
type child struct {
	pid    int              // of the command, and the number of its group
	exited chan struct{}    // closed when the command itself has ended
	state  *os.ProcessState // set then
	guard  *guardHandle
	until  time.Time // what the guard was told last
}

// errStart: the fault is not the command's.
var errStart = errors.New("can't start a process")

// startChild starts the command, and the guard that kills it when we can't: until
// then it may run if nothing more is heard from us.
func startChild(path string, argv, env []string, until time.Time) (*child, error) {
	g, err := startGuard()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errStart, err)
	}
	s, err := newStarter(path, argv, env)
	if err != nil {
		g.dismiss()
		return nil, fmt.Errorf("%w: %w", errStart, err)
	}
	c := &child{exited: make(chan struct{}), guard: g}
	if err := c.run(s); err != nil {
		s.close()
		g.dismiss()
		return nil, fmt.Errorf("%w: %w", errStart, err)
	}
	c.tellGuard(until)
	if err := s.release(); err != nil {
		<-c.exited // it has ended by itself
		g.dismiss()
		return nil, err
	}
	return c, nil
}

// run starts the process and waits for its end in the background.
func (c *child) run(s *starter) error {
	started := make(chan error)
	go func() {
		// On Linux the kernel kills the command when the THREAD that started it
		// ends. So this goroutine keeps its thread until the command has ended.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := s.cmd.Start()
		if err == nil {
			c.pid = s.cmd.Process.Pid
		}
		started <- err
		if err != nil {
			return
		}
		_ = s.cmd.Wait() // what it says is in the state
		c.state = s.cmd.ProcessState
		close(c.exited)
	}()
	return <-started
}

// tellGuard says until when the command may run. A point in time, and not a
// duration: we may be stopped on the way from the one to the other.
func (c *child) tellGuard(until time.Time) {
	c.until = until
	now := time.Now()
	c.guard.tell(order{group: c.pid, left: max(0, until.Sub(now)), said: now})
}

// killedByGuard tells of the end of the command or of the guard whether it was the
// guard's doing: then both end, the one right after the other.
func (c *child) killedByGuard() bool {
	limit := time.NewTimer(guardEnds)
	defer limit.Stop()
	for _, ended := range []<-chan struct{}{c.exited, c.guard.gone} {
		if c.hasExited() && !killed(c.state) {
			return false
		}
		select {
		case <-ended:
		case <-limit.C:
			return false
		}
	}
	return killed(c.state)
}

// guardEnds is how long the two may take to end, and to be reaped.
const guardEnds = 200 * time.Millisecond

func killed(s *os.ProcessState) bool {
	ws, ok := s.Sys().(syscall.WaitStatus)
	return ok && ws.Signaled() && ws.Signal() == syscall.SIGKILL
}

func (c *child) dismissGuard() { c.guard.dismiss() }

func (c *child) hasExited() bool {
	select {
	case <-c.exited:
		return true
	default:
		return false
	}
}

// gone tells whether no process of the group is left. As long as there is one,
// the group's number can't be given to another; and numbers are not given out
// again within the milliseconds between two looks.
func (c *child) gone() bool { return c.hasExited() && groupEmpty(c.pid) }

func (c *child) terminate() { signalGroup(c.pid, false) }
func (c *child) killGroup() { signalGroup(c.pid, true) }

// awaitGone waits until no process of the group is left. It returns false when
// one of the others came first.
func (c *child) awaitGone(timeout <-chan time.Time, hurry <-chan struct{}) bool {
	// There is no event for the end of a group that isn't made of our children;
	// so look, first often, then less so.
	pause := time.Millisecond
	look := time.NewTimer(pause)
	defer look.Stop()
	exited := c.exited
	for !c.gone() {
		select {
		case <-exited:
			exited = nil
		case <-look.C:
			pause = min(2*pause, 20*time.Millisecond)
			look.Reset(pause)
		case <-timeout:
			return c.gone()
		case <-hurry:
			return c.gone()
		}
	}
	return true
}
