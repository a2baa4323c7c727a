//go:build unix

package supervise

import (
	"bufio"
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/supervisor"
)

// These are the helper's files other than the standard ones.
const (
	fdOrders  = 3 // read: the assignment, then lines; its end means that mandate is dead
	fdReports = 4 // written: started PID, or failed ERRNO; stopped SIGNAL; late, before the helper kills; ended STATUS; gone
)

// The lines of mandate to the helper. All other lines are reports of electors.
const (
	untilLine = "until %d\n" // the command may run until this Instant
	doneLine  = "done\n"     // mandate will release the lock itself
)

// assignment is the first message to the helper.
type assignment struct {
	Command Command
	Until   Instant
	Mandate int // its pid
}

// helper is the state of the helper process.
type helper struct {
	assignment
	orders  *bufio.Reader
	reports io.Writer
	pid     int              // of the command
	terms   supervisor.Terms // of mandate
	gone    chan struct{}    // closed when no process of the command is left
}

var dispatched bool

// Dispatch runs the helper if this process was started as one, and reports whether it did. A
// program must call Dispatch before anything else, also in the TestMain of a test binary: without
// it, a process started as the helper would run the program (for example all tests, which start
// helpers again). Therefore no helper can be started before Dispatch was called.
func Dispatch() (was bool) {
	dispatched = true
	if filepath.Base(os.Args[0]) != HelperName {
		return false
	}
	helperMain()
	return true
}

// helperMain is the main function of the helper. It starts the command that it reads, and lives
// until the command and all its descendants have ended, and mandate needs it no more.
func helperMain() {
	// The kernel kills the command when the thread (not the process) that has started it ends.
	runtime.LockOSThread()
	catchSignals()
	syscall.CloseOnExec(fdOrders)
	syscall.CloseOnExec(fdReports)
	h := &helper{orders: bufio.NewReader(os.NewFile(fdOrders, "orders")), reports: os.NewFile(fdReports, "reports"), gone: make(chan struct{})}
	// gob reads only its own message from a bufio.Reader.
	if adoptOrphans() != nil || gob.NewDecoder(h.orders).Decode(&h.assignment) != nil {
		os.Exit(1) // mandate has ended already (adoptOrphans fails on no system that Go supports)
	}
	if err := h.terms.Follow(bytes.NewReader(h.Command.Terms)); err != nil {
		os.Exit(1)
	}
	if err := h.start(); err != nil {
		fmt.Fprintf(h.reports, "failed %d\n", errnoOf(err))
		os.Exit(0)
	}
	fmt.Fprintf(h.reports, "started %d\n", h.pid)
	detachStreams()
	go h.reap()
	done := h.follow(fdOrders, Now)
	h.kill()
	if !done {
		h.release()
	}
	os.Exit(0)
}

func (h *helper) start() (err error) {
	attr := &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(attr)
	c := h.Command
	h.pid, err = syscall.ForkExec(c.Path, c.Argv, &syscall.ProcAttr{Env: c.Env, Files: []uintptr{0, 1, 2}, Sys: attr})
	return err
}

// errnoOf returns the error number of err, or EIO if it has none.
func errnoOf(err error) syscall.Errno {
	errno := syscall.EIO
	_ = errors.As(err, &errno)
	return errno
}

func (h *helper) reap() {
	reap(h.pid, func(ws syscall.WaitStatus) { fmt.Fprintf(h.reports, "ended %d\n", ws) }, func(sig syscall.Signal) { fmt.Fprintf(h.reports, "stopped %d\n", sig) })
	close(h.gone)
	fmt.Fprint(h.reports, "gone\n")
}

// follow reads mandate's lines until mandate is done with the command, or is dead: then done is
// false. It kills the tree when the deadline passes. A helper that was stopped first reads what
// mandate has written meanwhile: only the newest deadline counts.
func (h *helper) follow(fd int, now func() Instant) (done bool) {
	late := false
	for {
		left := h.Until.Sub(now())
		if !late && left <= 0 && !h.readable(fd, 0) {
			late = true
			fmt.Fprint(h.reports, "late\n")
			go h.kill()
		}
		// A timer stops while the machine is suspended, but the lease does not: so the deadline is
		// checked at short intervals.
		wait := recheckEvery
		if !late {
			wait = max(0, min(left, recheckEvery))
		}
		if !h.readable(fd, wait) {
			continue
		}
		line, err := h.orders.ReadString('\n')
		if err != nil || line == doneLine {
			return err == nil
		}
		var until Instant
		if n, _ := fmt.Sscanf(line, untilLine, &until); n == 1 {
			h.Until = until
		} else {
			_ = h.terms.Follow(bytes.NewReader([]byte(line))) // it fails only if it can't read
		}
	}
}

// recheckEvery bounds how late the helper acts after the machine was suspended.
const recheckEvery = 250 * time.Millisecond

// readable waits for a line, or the end of the pipe.
func (h *helper) readable(fd int, wait time.Duration) bool {
	if h.orders.Buffered() > 0 {
		return true
	}
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, _ := unix.Poll(fds, int(wait.Milliseconds())+1)
	return n > 0
}

// kill kills the tree repeatedly until no process of it is left: a single scan of a tree that grows
// misses new processes. It waits for processes that it may not kill.
func (h *helper) kill() {
	t := tree{root: os.Getpid(), group: h.pid}
	for p := (pauses{}); !closed(h.gone); {
		living, denied := t.signal(syscall.SIGKILL)
		pause := p.next()
		if living > 0 && living == denied {
			pause = deniedPause
		}
		select {
		case <-h.gone:
		case <-time.After(pause):
		}
	}
}

// release releases the terms of a dead mandate. The end of the pipe does not prove its death: the
// kernel closes a process's files a moment before the process is dead.
func (h *helper) release() {
	if len(h.Command.Nodes) == 0 || !adopts || h.terms.Empty() {
		return
	}
	deadline := Now().Add(deathLimit)
	for p := (pauses{}); os.Getppid() == h.Mandate; time.Sleep(p.next()) {
		if Until(deadline) <= 0 {
			return // it has closed the pipe, and lives
		}
	}
	time.Sleep(h.Command.Promised)
	q, err := elector.Open(h.Command.Nodes...)
	if err != nil {
		return // unexpected: mandate could open the same URLs
	}
	defer func() { _ = q.Close() }()
	// While mandate lives these signals are ignored, because a service manager or a terminal sends
	// them to all processes. They may also arrive after mandate was killed: the release then makes one
	// attempt and no more.
	ctx, end := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer end()
	_, _ = h.terms.Release(ctx, q, "mandate was killed")
}

// deathLimit is far longer than a process takes to end after its files were closed.
const deathLimit = 10 * time.Second

// reap waits for all children, also adopted ones, until none is left. It calls stopped when the
// terminal has stopped the command for using it in the background.
func reap(command int, ended func(syscall.WaitStatus), stopped func(syscall.Signal)) {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil: // ECHILD
			awaitGroup(command)
			return
		case pid == command && ws.Stopped():
			if sig := ws.StopSignal(); sig == syscall.SIGTTIN || sig == syscall.SIGTTOU {
				stopped(sig)
			}
		case pid == command:
			ended(ws)
		}
	}
}

// catchSignals makes the helper ignore the signals of a terminal, and of an operator who ends all
// processes: the helper exits only when its children have. It catches these signals and does not
// set them to be ignored, because the command would inherit that.
func catchSignals() {
	passing := []os.Signal{syscall.SIGINT, syscall.SIGHUP, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGPIPE, syscall.SIGUSR1, syscall.SIGUSR2}
	// Signals that nohup or a shell's & have set to be ignored stay so, and the command inherits
	// that.
	passing = slices.DeleteFunc(passing, signal.Ignored)
	signal.Notify(make(chan os.Signal, 1), passing...)
}

// detachStreams replaces the standard streams by /dev/null, so that a reader of the command's
// output sees the end of it when the command has ended.
func detachStreams() {
	for fd := range 3 {
		_ = syscall.Close(fd)
		_, _ = syscall.Open(os.DevNull, syscall.O_RDWR|syscall.O_CLOEXEC, 0) // takes the lowest number, which is this one
	}
}
