//go:build unix

package supervise

import (
	"bufio"
	"cmp"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Supported returns an error if this system lacks what is needed to run a command safely.
func Supported() error { return nil }

// nanoseconds reads the clock of Now.
func nanoseconds() int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(clock, &ts) // it fails on no system that Go supports
	return ts.Nano()
}

// Helper is the helper process as mandate sees it. If it is killed, the next Start starts another
// one. Safe for concurrent use.
type Helper struct {
	r, w  *os.File // the pipe: the orders of this process, and the reports of its electors
	setup Setup

	mu      sync.Mutex // guards all below
	cmd     *exec.Cmd
	killed  bool          // cmd was
	ended   chan struct{} // closed when cmd has ended, and nothing that it has left lives
	lastID  int
	running map[int]*Process
}

// NewHelper makes the pipe to the helper.
func NewHelper() (*Helper, error) {
	r, w, err := os.Pipe() // close-on-exec: no command inherits it
	if err != nil {
		return nil, err
	}
	h := &Helper{r: r, w: w, running: map[int]*Process{}}
	control(w, func(fd int) { growPipe(fd) })
	return h, nil
}

// control calls f with the descriptor. File.Fd would make the file block.
func control(file *os.File, f func(fd int)) {
	if raw, err := file.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { f(int(fd)) })
	}
}

// Pipe names the pipe, as this process has it, for the electors of this process: they report their
// terms on it.
func (h *Helper) Pipe() (name string, err error) {
	control(h.w, func(fd int) { name, err = nameOf(fd, fd) })
	return name, err
}

// nameOf names a pipe that is fd here, and will be the descriptor as in the process that reports.
func nameOf(fd, as int) (string, error) {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	return fmt.Sprintf("%d:%d", as, st.Ino), err
}

// Begin starts the helper process.
func (h *Helper) Begin(s Setup) error {
	adopt()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.setup, h.setup.Mandate = s, os.Getpid()
	return h.begin()
}

func (h *Helper) begin() error {
	if !dispatched {
		return errors.New("this program can't run as a helper")
	}
	self, err := selfPath()
	if err != nil {
		return err
	}
	var files [4]*os.File
	defer func() { // those that the helper has now
		_, _ = files[1].Close(), files[2].Close()
	}()
	if files[0], files[1], err = os.Pipe(); err != nil {
		return err
	}
	if files[2], files[3], err = os.Pipe(); err != nil {
		_ = files[0].Close()
		return err
	}
	reports, setup := files[0], files[3]
	cmd := exec.Command(self) //nolint:noctx // it ends with this process
	cmd.Args = []string{HelperName}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr // for the commands
	cmd.ExtraFiles = []*os.File{h.r, files[1], files[2]}               // fdOrders, fdReports, fdSetup
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}              // it receives no Ctrl-C and no Ctrl-Z
	if err := cmd.Start(); err != nil {
		_, _ = reports.Close(), setup.Close()
		return err
	}
	h.setup.After = h.lastID
	h.cmd, h.killed, h.ended = cmd, false, make(chan struct{})
	go h.follow(cmd, reports, h.ended)
	go func(s Setup) {
		_ = gob.NewEncoder(setup).Encode(s) // it fails only when the helper was killed
		_ = setup.Close()
	}(h.setup)
	return nil
}

// Start starts the command with env beside the environment of this process. The helper kills it at
// until, unless that is extended, or when this process dies. The error is ErrStart, or that of exec.
func (h *Helper) Start(env []string, until Instant) (*Process, error) {
	p := newProcess(h, until)
	if err := h.start(p, env); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
	}
	<-p.started
	return p, p.failed
}

func (h *Helper) start(p *Process, env []string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.killed {
		h.mu.Unlock()
		select {
		case <-h.ended:
		case <-time.After(Until(p.until)):
		}
		h.mu.Lock()
	}
	if h.killed {
		if !closed(h.ended) {
			return errors.New("processes of a command before are left")
		}
		if err := h.begin(); err != nil {
			return err
		}
	}
	h.lastID++
	p.id = h.lastID
	if !h.send(order{ID: p.id, Start: append([]string{}, env...), Until: p.until}) {
		return errors.New(HelperName + " does not read")
	}
	h.running[p.id] = p
	return nil
}

// send makes one attempt to write to the helper, and never blocks. The attempt fails only when the
// helper was stopped and has not read thousands of lines, or is dead.
func (h *Helper) send(o order) (sent bool) {
	line, err := json.Marshal(o)
	if err != nil || len(line) >= 4096 { // a longer line would mix with those of the electors
		return false
	}
	control(h.w, func(fd int) {
		_, err = unix.Write(fd, append(line, '\n'))
		sent = err == nil
	})
	return sent
}

// wake continues the helper, if it was stopped.
func (h *Helper) wake() {
	h.mu.Lock()
	defer h.mu.Unlock()
	_ = h.cmd.Process.Signal(syscall.SIGCONT)
}

// follow reads the reports of a helper until it has ended. A helper that was killed takes the
// commands with it; what they leave is below this process then.
func (h *Helper) follow(cmd *exec.Cmd, from *os.File, ended chan struct{}) {
	for reports := bufio.NewScanner(from); reports.Scan(); {
		h.note(reports.Text())
	}
	_ = from.Close()
	_ = cmd.Wait()
	h.mu.Lock()
	left := h.running
	h.running, h.killed = map[int]*Process{}, true
	h.mu.Unlock()
	if !cmd.ProcessState.Success() {
		for _, p := range left {
			p.orphan()
		}
		killDescendants()
	}
	for _, p := range left {
		close(p.gone)
	}
	close(ended)
}

// parseReport parses "WHAT ID VALUE".
func parseReport(line string) (what string, id int, value string) {
	what, rest, _ := strings.Cut(line, " ")
	number, value, _ := strings.Cut(rest, " ")
	id, _ = strconv.Atoi(number)
	return what, id, value
}

// note notes one report.
func (h *Helper) note(line string) {
	what, id, value := parseReport(line)
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.running[id]
	if p == nil {
		return
	}
	p.note(what, value)
	if what == "gone" || what == "failed" {
		delete(h.running, id)
	}
}

// Close ends the helper, which kills what is left, and releases nothing.
func (h *Helper) Close() {
	h.send(order{Done: true})
	h.wake()
	_, _ = h.w.Close(), h.r.Close()
	select {
	case <-h.ended:
	case <-time.After(time.Second): // a process that can't be killed holds it up
	}
}

// Process is a running command with everything that it has started. Its methods must be called from
// one goroutine.
type Process struct {
	h     *Helper
	id    int
	until Instant // the deadline that was last sent to the helper
	stop  bool

	started, exited, gone chan struct{}
	stopped               chan syscall.Signal

	// Guarded by the mutex of h, or by the channel that is closed afterwards.
	failed   error              // started
	pid      int                // started
	status   syscall.WaitStatus // exited
	late     bool               // exited: the helper has begun to kill the tree
	orphaned bool               // exited: the helper was killed
	left     string             // the processes that a SIGKILL has not ended yet
}

func newProcess(h *Helper, until Instant) *Process {
	return &Process{
		h: h, until: until,
		started: make(chan struct{}), exited: make(chan struct{}), gone: make(chan struct{}), stopped: make(chan syscall.Signal, 1),
	}
}

// note notes what the helper has reported.
func (p *Process) note(what, value string) {
	n, _ := strconv.Atoi(value)
	switch what {
	case "started":
		p.pid = n
		close(p.started)
	case "failed":
		if p.failed = syscall.Errno(n); p.failed == syscall.ETIME {
			p.failed = fmt.Errorf("%w: the lease has ended", ErrStart)
		}
		close(p.started)
	case "stopped":
		select {
		case p.stopped <- syscall.Signal(n):
		default:
		}
	case "late":
		p.late = !closed(p.exited)
	case "left":
		p.left = value
	case "ended":
		p.status = syscall.WaitStatus(n)
		close(p.exited)
	case "gone":
		close(p.gone)
	}
}

// orphan notes that the helper was killed.
func (p *Process) orphan() {
	p.orphaned = true
	if !closed(p.started) {
		p.failed = fmt.Errorf("%w: %s has ended", ErrStart, HelperName)
		close(p.started)
	}
	if !closed(p.exited) {
		p.status = syscall.WaitStatus(syscall.SIGKILL)
		close(p.exited)
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// PID returns the process id of the command.
func (p *Process) PID() int { return p.pid }

// Exited is closed when the command itself has ended; Status is valid then.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Status returns the status of the command, once it has ended.
func (p *Process) Status() syscall.WaitStatus { return p.status }

// Stopped receives the signal with which the terminal has stopped the command.
func (p *Process) Stopped() <-chan syscall.Signal { return p.stopped }

// HasExited reports whether the command itself has ended.
func (p *Process) HasExited() bool { return closed(p.exited) }

// Extend sets the deadline until which the command may run. It is a point in time and not a
// duration, because this process may be stopped between computing and sending it.
func (p *Process) Extend(until Instant) {
	p.until = until
	p.h.send(order{ID: p.id, Stop: p.stop, Until: until})
}

// Until returns the deadline that Extend set last.
func (p *Process) Until() Instant { return p.until }

// Stop has all processes of the command end: with SIGTERM now, and with SIGKILL at until.
func (p *Process) Stop(until Instant) {
	p.stop = true
	p.Extend(until)
	p.h.wake()
}

// stopAgain is how often Stop is repeated while its effect is awaited: the helper may have been
// stopped, and its pipe full.
const stopAgain = 50 * time.Millisecond

// AwaitGone blocks until no process of the command is left, or until timeout or force fires. It
// reports whether none is left.
func (p *Process) AwaitGone(timeout <-chan time.Time, force <-chan struct{}) bool {
	again := time.NewTicker(stopAgain)
	defer again.Stop()
	for {
		select {
		case <-p.gone:
			return true
		case <-again.C:
			if p.stop {
				p.Stop(p.until)
			}
		case <-timeout:
			return closed(p.gone)
		case <-force:
			return closed(p.gone)
		}
	}
}

// KilledByHelper reports whether the helper has killed the command, because its deadline had
// passed.
func (p *Process) KilledByHelper() bool {
	return p.HasExited() && p.late && p.status.Signaled() && p.status.Signal() == syscall.SIGKILL
}

// HelperKilled reports whether the helper was killed, and with it the command.
func (p *Process) HelperKilled() bool { return p.HasExited() && p.orphaned }

// Left returns the processes of the command that SIGKILL has not ended yet, for people.
func (p *Process) Left() string {
	p.h.mu.Lock()
	defer p.h.mu.Unlock()
	return cmp.Or(p.left, "unknown")
}

// killDescendants kills everything below this process until nothing is left: that is what a killed
// helper has left, and programs that probes have started.
func killDescendants() {
	for s := (schedule{}); ; time.Sleep(s.pause) {
		all, err := processes()
		left := descendants(all)
		if err == nil && len(left) == 0 || !adopts {
			return
		}
		living, denied := signalTree(tree{found: left}, syscall.SIGKILL)
		s.next(0, living > 0 && living == denied)
	}
}
