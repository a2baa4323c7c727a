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

	Unmarked error // why it is unknown which command has left a process; nil: it is known

	mu      sync.Mutex // guards all below
	cmd     *exec.Cmd
	reports *os.File
	killed  bool          // cmd was
	ended   chan struct{} // closed when cmd has ended, and nothing that it has left lives
	lastID  int
	running map[int]*Process
}

// NewHelper makes the pipe to the helper.
func NewHelper() (*Helper, error) {
	r, w, err := os.Pipe() // close-on-exec: no command inherits it
	return &Helper{r: r, w: w, running: map[int]*Process{}, Unmarked: setMark(mark(os.Getpid(), 0))}, err
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
	h.cmd, h.reports, h.killed, h.ended = cmd, reports, false, make(chan struct{})
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
	for h.killed && !closed(h.ended) {
		if Until(p.Until) <= 0 {
			return errors.New("processes of a command before are left")
		}
		h.mu.Unlock()
		time.Sleep(time.Millisecond)
		h.mu.Lock()
	}
	if h.killed {
		if err := h.begin(); err != nil {
			return err
		}
	}
	h.lastID++
	p.id, p.helper = h.lastID, h.cmd.Process.Pid
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

// follow reads the reports of a helper until it has ended, or was given up: a child whose execve hangs holds its pipe.
// A helper that was killed takes the commands with it. This process kills what they leave.
func (h *Helper) follow(cmd *exec.Cmd, from *os.File, ended chan struct{}) {
	go func() {
		_ = cmd.Wait()
		_ = from.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	}()
	for reports := bufio.NewScanner(from); reports.Scan(); {
		h.note(reports.Text())
	}
	_ = from.Close()
	h.mu.Lock()
	h.killed = true
	for _, p := range h.running {
		p.orphan()
	}
	h.mu.Unlock()
	for pause := time.Millisecond; !h.swept(); pause = min(2*pause, time.Second) {
		time.Sleep(pause)
	}
	close(ended)
}

// swept kills what is left of the commands of a dead helper, and reports whether nothing is: twice, since a scan misses
// processes that begin meanwhile.
func (h *Helper) swept() bool {
	all, err := processes()
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, p := range h.running {
		tree, before := p.tree(all), p.none
		signalAll(tree, syscall.SIGKILL)
		if p.none = len(tree) == 0 && err == nil; p.none && before || !adopts {
			close(p.gone)
			delete(h.running, id)
		}
	}
	return len(h.running) == 0
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
		p.Late = true
	case "ended":
		p.exit(syscall.WaitStatus(value))
	case "gone":
		close(p.gone)
	}
}

func (p *Process) exit(status syscall.WaitStatus) {
	p.Status = status
	p.Late = p.Late && !p.Orphan && status.Signaled() && status.Signal() == syscall.SIGKILL
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
	p.Until = until
	p.h.send(order{ID: p.id, Stop: p.stop, Until: until})
	p.h.wake() // a helper that was stopped would not notice that the command has ended
}

// Stop has all processes of the command end: with SIGTERM now, and with SIGKILL at until.
func (p *Process) Stop(until Instant) {
	p.stop = true
	p.Extend(until)
}

// obeys is how long the helper has to obey an order.
const obeys = 20 * time.Millisecond

// AwaitGone blocks until no process of the command is left, or until timeout or force fires. It
// reports whether none is left. Of a helper that does nothing this process does the work.
func (p *Process) AwaitGone(timeout <-chan time.Time, force <-chan struct{}) bool {
	again := time.NewTicker(obeys) // the helper may have been stopped, and its pipe full
	defer again.Stop()
	for {
		select {
		case <-p.gone:
			return true
		case <-again.C:
			if p.stop {
				p.Stop(p.Until)
				p.kill()
			}
		case <-timeout:
			return closed(p.gone)
		case <-force:
			return closed(p.gone)
		}
	}
}

// kill kills what the helper was ordered to kill, and has not: one that a debugger holds, that is frozen, dumps core or
// waits for a disk obeys no order, and SIGCONT does not wake it.
func (p *Process) kill() {
	if Until(p.Until) > -obeys/2 {
		return
	}
	all, err := processes()
	p.h.mu.Lock()
	defer p.h.mu.Unlock()
	signalAll(p.tree(all), syscall.SIGKILL)
	if err != nil && p.PID > 0 && !p.HasExited() {
		_ = syscall.Kill(-p.PID, syscall.SIGKILL)
	}
}

// GiveUp kills the helper, and all commands with it, if nothing is left of this one, and the helper does not report
// that: it would not start the next one either. It reports whether it has.
func (p *Process) GiveUp() bool {
	all, err := processes()
	p.h.mu.Lock()
	defer p.h.mu.Unlock()
	if err != nil || len(p.tree(all)) > 0 || closed(p.gone) {
		return false
	}
	_ = p.h.cmd.Process.Kill()
	_ = p.h.reports.SetReadDeadline(time.Now()) // it may be frozen, and die later
	return true
}

// tree returns the living processes of the command: below the helper, or below this process when the helper is dead.
func (p *Process) tree(all []process) []process {
	self := os.Getpid()
	tree := below(all, self, p.owns)
	if slices.ContainsFunc(all, func(q process) bool { return q.pid == p.helper && q.parent == self }) {
		tree = append(tree, below(all, p.helper, p.owns)...)
	}
	return tree
}

// owns reports whether a child of the helper, or of this process, may be the command's.
func (p *Process) owns(child int) bool {
	for _, q := range p.h.running {
		if child == q.PID && !q.HasExited() {
			return q == p
		}
	}
	return child != p.helper && mayBeOf(p.id, p.helper, child)
}

// Left returns the living processes of the command, for people.
func (p *Process) Left() string {
	all, _ := processes()
	p.h.mu.Lock()
	defer p.h.mu.Unlock()
	return listed(p.tree(all))
}
