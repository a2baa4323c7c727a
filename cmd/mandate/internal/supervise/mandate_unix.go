//go:build unix

package supervise

import (
	"bufio"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mandate-dev/mandate/elector/supervisor"
)

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
	return &Helper{r: r, w: w, running: map[int]*Process{}}, err
}

// Pipe names the pipe, as this process has it, for the electors of this process: they report their
// terms on it.
func (h *Helper) Pipe() (name string, err error) {
	control(h.w, func(fd int) { name, err = nameOf(fd, fd) })
	return name, err
}

// control calls f with the descriptor. File.Fd would make the file block.
func control(file *os.File, f func(fd int)) {
	if raw, err := file.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { f(int(fd)) })
	}
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
	h.setup, h.setup.Env = s, os.Environ()
	return h.begin()
}

func (h *Helper) begin() error {
	cmd, err := program(HelperName)
	if err != nil {
		return err
	}
	reports, outW, err := os.Pipe()
	inR, setup, ierr := os.Pipe()
	if err := errors.Join(err, ierr); err != nil {
		return err
	}
	defer func() { _, _ = outW.Close(), inR.Close() }()
	cmd.Env = helperEnv(os.Environ())
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr // for the commands
	cmd.ExtraFiles = []*os.File{h.r, outW, inR}                        // fdOrders, fdReports, fdSetup
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

// program is this program, to be started under another name.
func program(name string) (*exec.Cmd, error) {
	if !dispatched {
		return nil, errors.New("this program can't run as " + name)
	}
	self, err := selfPath()
	cmd := exec.Command(self) //nolint:noctx // it ends with this process
	cmd.Args = []string{name}
	var fd int // of this process's own supervisor: the electors, which are made later, take the variable away
	if n, _ := fmt.Sscanf(os.Getenv(supervisor.Variable), "%d:", &fd); n == 1 && fd > 2 {
		syscall.CloseOnExec(fd)
	}
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, supervisor.Variable+"=") })
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // it receives no Ctrl-C and no Ctrl-Z
	return cmd, err
}

// Start starts the command with env beside the environment of this process, and waits for neither the
// helper nor the command's execve. The helper kills it at until, unless that is extended, or when this
// process dies. The error is ErrStart.
func (h *Helper) Start(env []string, until Instant) (*Process, error) {
	p := newProcess(h, until)
	if err := h.start(p, env); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
	}
	h.wake() // if it was stopped, this process would lead, and run nothing
	return p, nil
}

func (h *Helper) start(p *Process, env []string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ended := h.ended; h.killed {
		h.mu.Unlock()
		select {
		case <-ended:
		case <-time.After(Until(p.Until)):
		}
		h.mu.Lock()
		if !closed(h.ended) && h.killed {
			return errors.New("processes of a command before are left")
		}
	}
	if h.killed {
		if err := h.begin(); err != nil {
			return err
		}
	}
	h.lastID++
	p.id = h.lastID
	if !h.send(order{ID: p.id, Start: append([]string{}, env...), Until: p.Until}) {
		return errors.New(HelperName + " does not read")
	}
	h.running[p.id] = p
	return nil
}

// send makes one attempt to write to the helper, and never blocks. The attempt fails only when the
// helper was stopped and has not read a thousand lines, or is dead.
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

// Signal sends a signal to every running command, and not to what it has started.
func (h *Helper) Signal(sig syscall.Signal) {
	h.send(order{Signal: sig})
	h.wake()
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
	failed := cmd.Wait() // it is unknown how a helper has ended that was reaped elsewhere
	h.mu.Lock()
	left := h.running
	h.running, h.killed = map[int]*Process{}, true
	h.mu.Unlock()
	if failed != nil {
		for _, p := range left {
			p.orphan()
		}
		for all := descendants(); adopts && len(all) > 0; all = descendants() { // also what probes have started
			signalAll(all, syscall.SIGKILL)
			time.Sleep(5 * time.Millisecond)
		}
	}
	for _, p := range left {
		close(p.gone)
	}
	close(ended)
}

func (h *Helper) note(line string) {
	var what string
	var id, value int
	_, _ = fmt.Sscan(line, &what, &id, &value)
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.running[id]; p != nil {
		p.note(what, value)
	}
	if what == "gone" {
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
	PID     int                 // once it has started
	Started chan struct{}       // closed when the process exists, which then executes the command
	Exited  chan struct{}       // closed when the command itself has ended
	Status  syscall.WaitStatus  // of the command, once it has ended
	Failed  error               // once it has ended: it has not begun, and this is why
	Late    bool                // once it has ended: the helper has killed it because its deadline had passed
	Orphan  bool                // once it has ended: the helper was killed, and the command with it
	Stopped chan syscall.Signal // receives the signal with which the terminal has stopped the command
	Until   Instant             // the deadline that was sent last

	h      *Helper
	id     int
	helper int // the process
	gone   chan struct{}
	stop   bool // Stop was called
	late   bool // the helper kills it, and not by an order
	none   bool // the newest scan has shown nothing of it
}

func newProcess(h *Helper, until Instant) *Process {
	return &Process{
		Exited: make(chan struct{}), Stopped: make(chan syscall.Signal, 1),
		h: h, Started: make(chan struct{}), gone: make(chan struct{}), Until: until,
	}
}

func (p *Process) note(what string, value int) {
	switch what {
	case "started":
		p.PID = value
		close(p.Started)
	case "failed":
		if p.Failed = syscall.Errno(value); p.Failed == syscall.ETIME { //nolint:errorlint // it was made here
			p.Failed = fmt.Errorf("%w: the lease has ended", ErrStart)
		}
		p.exit(0)
	case "stopped":
		select {
		case p.Stopped <- syscall.Signal(value):
		default:
		}
	case "late":
		p.late = true
	case "ended":
		p.exit(syscall.WaitStatus(value))
	case "gone":
		close(p.gone)
	}
}

func (p *Process) exit(status syscall.WaitStatus) {
	p.Status = status
	p.Late = p.late && !p.Orphan && status.Signaled() && status.Signal() == syscall.SIGKILL
	close(p.Exited)
}

// orphan notes that the helper was killed.
func (p *Process) orphan() {
	if !closed(p.Exited) {
		p.Orphan = true
		p.exit(syscall.WaitStatus(syscall.SIGKILL))
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

// HasExited reports whether the command itself has ended.
func (p *Process) HasExited() bool { return closed(p.Exited) }

// Extend sets the deadline until which the command may run. It is a point in time and not a
// duration, because this process may be stopped between computing and sending it.
func (p *Process) Extend(until Instant) {
	p.order(until)
	p.h.wake() // a helper that was stopped would not notice that the command has ended
}

// Stop has all processes of the command end: with SIGTERM now, and with SIGKILL at until.
func (p *Process) Stop(until Instant) {
	p.stop = true
	p.order(until)
	p.h.wake()
}

func (p *Process) order(until Instant) {
	p.Until = until
	p.h.send(order{ID: p.id, Stop: p.stop, Until: until})
}

// AwaitGone blocks until no process of the command is left, or until timeout or force fires. It
// reports whether none is left.
func (p *Process) AwaitGone(timeout <-chan time.Time, force <-chan struct{}) bool {
	again := time.NewTicker(50 * time.Millisecond) // the helper may have been stopped, and its pipe full
	defer again.Stop()
	for {
		select {
		case <-p.gone:
			return true
		case <-again.C:
			if p.stop {
				p.Stop(p.Until)
			}
		case <-timeout:
			return closed(p.gone)
		case <-force:
			return closed(p.gone)
		}
	}
}

// Left returns the living processes of the command, for people.
func (p *Process) Left() string {
	p.h.mu.Lock()
	defer p.h.mu.Unlock()
	all, _ := processes()
	var left []process
	for _, q := range all {
		if !q.dead && markOf(q.pid) == mark(p.h.cmd.Process.Pid, p.id) {
			left = append(left, q)
		}
	}
	return listed(left)
}
