//go:build unix

package supervise

import (
	"bytes"
	"cmp"
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/supervisor"
)

// These are the helper's files other than the standard ones.
const (
	fdOrders  = 3 // read: lines; its end means that mandate is dead
	fdReports = 4 // written: started ID PID, failed ID ERRNO, stopped ID SIGNAL, ended ID STATUS, gone ID 0
	fdSetup   = 5 // read: the Setup
)

// order is a line of mandate to the helper. All other lines are reports of electors, which write to
// the same pipe: the helper knows of a term before it starts the term's command.
type order struct {
	ID    int      `json:"id"`              // of a command; none: Done
	Start []string `json:"start"`           // start the command with this beside mandate's environment
	Stop  bool     `json:"stop,omitempty"`  // SIGTERM now, and SIGKILL at Until
	Until Instant  `json:"until,omitempty"` // the command may run until then
	Done  bool     `json:"done,omitempty"`  // mandate has released its locks and ends

	Signal syscall.Signal `json:"signal,omitempty"` // for all commands
}

type helper struct {
	*keeper
	Setup
	orders lines
	terms  supervisor.Terms // of mandate
	done   bool
}

var dispatched bool

// Dispatch runs the helper, or a prober, if this process was started as one, and reports whether it did. A
// program must call it before anything else, also in TestMain: otherwise the helper would run the
// program, or all tests, which start helpers again. No helper can be started before.
func Dispatch() (was bool) {
	dispatched = true
	run, is := map[string]func(){HelperName: helperMain, proberName: proberMain}[filepath.Base(os.Args[0])]
	if is {
		_ = os.WriteFile("/proc/self/comm", []byte(os.Args[0]), 0) // in ps, and in the log of the OOM killer
		run()
	}
	return is
}

// helperMain is the main function of the helper. It lives until mandate needs it no more, or is
// dead, and no process of a command is left.
func helperMain() {
	// The kernel kills the commands when the thread (not the process) that has started them ends.
	runtime.LockOSThread()
	catchSignals()
	for _, fd := range []int{fdOrders, fdReports, fdSetup} {
		syscall.CloseOnExec(fd)
		_ = unix.SetNonblock(fd, fd != fdSetup)
	}
	k, err := newKeeper(func(what string, id, value int) {
		_, _ = unix.Write(fdReports, fmt.Appendf(nil, "%s %d %d\n", what, id, value))
	})
	h := &helper{keeper: k, orders: lines{fd: fdOrders}}
	if err != nil || gob.NewDecoder(os.NewFile(fdSetup, "setup")).Decode(&h.Setup) != nil {
		os.Exit(1) // mandate has ended already
	}
	k.stopSignal = cmp.Or(h.StopSignal, syscall.SIGTERM)
	h.run()
	if !h.done {
		h.release()
	}
	os.Exit(0)
}

// run obeys mandate until it is done or dead, and then kills what is left of the commands.
func (h *helper) run() {
	for fd := h.orders.fd; fd >= 0 || len(h.commands) > 0; {
		h.await(fd, forever)
		now := Now()
		h.obey()
		h.reap()
		if fd >= 0 && (h.orders.ended || h.done) {
			fd = -1
			detachStreams()
			h.killAll()
		}
		h.act(now)
	}
}

// obey reads what mandate and its electors have written.
func (h *helper) obey() {
	for line := range bytes.Lines(h.orders.read()) {
		var o order
		switch {
		case json.Unmarshal(line, &o) == nil && (o.ID > 0 || o.Done || o.Signal > 0):
			h.follow(o)
		default:
			_ = h.terms.Follow(bytes.NewReader(line)) // it fails only if it can't read
		}
	}
}

func (h *helper) follow(o order) {
	c := h.commands[o.ID]
	switch {
	case o.Done:
		h.done = true
	case o.Signal > 0:
		for _, c := range h.commands {
			if !c.ended {
				_ = syscall.Kill(c.pid, o.Signal)
			}
		}
	case o.Start != nil && o.ID > h.After:
		h.launch(o)
	case c == nil: // nothing is left of it
	case o.Stop:
		h.stop(c, o.Until)
	case !c.stopping && c.pause == 0:
		c.until = o.Until
	}
}

// launch starts a command, unless its time has passed while mandate or this process was suspended.
func (h *helper) launch(o order) {
	attr := &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(attr)
	c := &command{id: o.ID, until: o.Until}
	err := error(syscall.ETIME)
	if Until(o.Until) > 0 {
		err = h.start(c, h.Path, h.Argv, &syscall.ProcAttr{Env: append(slices.Clone(h.Env), o.Start...), Files: []uintptr{0, 1, 2}, Sys: attr})
	}
	if err == nil {
		h.tell("started", o.ID, c.pid)
		return
	}
	errno := syscall.EIO
	_ = errors.As(err, &errno)
	h.tell("failed", o.ID, int(errno))
	h.tell("gone", o.ID, 0)
}

// release releases the terms of a dead mandate: the kernel closes the files of a process when no thread of it
// runs any more.
func (h *helper) release() {
	if !adopts || h.terms.Empty() {
		return
	}
	q, err := elector.Open(h.Nodes...)
	if err == nil {
		defer func() { _ = q.Close() }()
		// A service manager or a terminal sends these to all processes: the release then makes one attempt
		// and no more.
		ctx, end := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
		defer end()
		_, err = h.terms.Release(ctx, q, "mandate was killed")
	}
	if err != nil {
		log := slog.New(slog.NewTextHandler(os.Stderr, nil))
		if h.LogJSON {
			log = slog.New(slog.NewJSONHandler(os.Stderr, nil))
		}
		log.Warn("terms not released, they lapse", "error", err)
	}
}

// catchSignals makes the helper survive the signals of a terminal, and of an operator who ends all
// processes. It does not set them to be ignored, because the command would inherit that.
func catchSignals() {
	passing := []os.Signal{syscall.SIGINT, syscall.SIGHUP, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGPIPE, syscall.SIGUSR1, syscall.SIGUSR2}
	// Signals that nohup or a shell's & have set to be ignored stay so, and the command inherits
	// that.
	passing = slices.DeleteFunc(passing, signal.Ignored)
	signal.Notify(make(chan os.Signal, 1), passing...)
}

// detachStreams replaces stdin and stdout by /dev/null, so that a reader of the command's output sees the
// end of it when mandate and the command have ended. stderr is the helper's log.
func detachStreams() {
	for fd := range 2 {
		_ = syscall.Close(fd)
		_, _ = syscall.Open(os.DevNull, syscall.O_RDWR|syscall.O_CLOEXEC, 0) // takes the lowest number, which is this one
	}
}

// lines reads the complete lines from a pipe that must not block.
type lines struct {
	fd    int
	buf   []byte
	ended bool // no process can write to the pipe any more
}

// read returns the lines that have arrived since.
func (l *lines) read() []byte {
	for part := make([]byte, 1<<16); !l.ended; {
		n, err := unix.Read(l.fd, part)
		l.ended = n == 0 && err == nil
		l.buf = append(l.buf, part[:max(n, 0)]...)
		if n <= 0 && !errors.Is(err, unix.EINTR) {
			break
		}
	}
	end := bytes.LastIndexByte(l.buf, '\n') + 1
	all := l.buf[:end]
	if l.buf = slices.Clone(l.buf[end:]); len(l.buf) > 1<<20 {
		l.buf = nil // no line of this program is so long
	}
	return all
}
