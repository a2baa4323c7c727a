//go:build unix

package supervise

import (
	"bufio"
	"encoding/gob"
	"errors"
	"fmt"
	"os"
	"os/exec"
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

// Process is a running command with everything that it has started. Its methods must be called from
// one goroutine.
type Process struct {
	pid    int
	helper *exec.Cmd
	orders *os.File // the helper sees its end when mandate dies
	tree   tree     // the descendants of the helper

	exited, gone chan struct{}
	stopped      chan syscall.Signal
	status       syscall.WaitStatus // set before exited is closed
	late         bool               // set before exited is closed: the helper has begun to kill the tree
	orphaned     bool               // set before gone is closed: the helper was killed, the rest of the tree is below this process

	until   Instant // the deadline that was last sent to the helper
	killing bool    // this process has killed the tree, before the helper had to
}

// helpers are the children of this process that are helpers. What a killed helper has left is
// below this process like they are, and must be told from them.
var helpers = struct {
	sync.Mutex
	pids map[int]bool
}{pids: map[int]bool{}}

// Start starts the command below a helper, which kills it at until, unless that is extended, or
// when this process dies. The error is ErrStart, or that of exec.
func Start(c Command, until Instant) (*Process, error) {
	p := &Process{exited: make(chan struct{}), gone: make(chan struct{}), stopped: make(chan syscall.Signal, 1), until: until}
	from, err := p.startHelper()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
	}
	if err := p.command(assignment{Command: c, Until: until, Mandate: os.Getpid()}, from); err != nil {
		<-p.gone
		p.Close()
		return nil, err
	}
	return p, nil
}

// startHelper starts the process that becomes the command's parent. Its reports can be read from
// the returned file.
func (p *Process) startHelper() (reports *os.File, err error) {
	if !dispatched {
		return nil, errors.New("this program can't run as a helper")
	}
	self, err := selfPath()
	if err != nil {
		return nil, err
	}
	inR, inW, err := os.Pipe() // close-on-exec: the command doesn't inherit them
	if err != nil {
		return nil, err
	}
	defer func() { _ = inR.Close() }()
	outR, outW, err := os.Pipe()
	if err != nil {
		_ = inW.Close()
		return nil, err
	}
	defer func() { _ = outW.Close() }()
	p.helper = exec.Command(self) //nolint:noctx // it ends with the command
	p.helper.Args = []string{HelperName}
	p.helper.Stdin, p.helper.Stdout, p.helper.Stderr = os.Stdin, os.Stdout, os.Stderr // for the command
	p.helper.ExtraFiles = []*os.File{inR, outW}                                       // fdOrders, fdReports
	p.helper.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}                        // it receives no Ctrl-C and no Ctrl-Z
	helpers.Lock()
	defer helpers.Unlock()
	if err := p.helper.Start(); err != nil {
		_ = inW.Close()
		_ = outR.Close()
		return nil, err
	}
	helpers.pids[p.helper.Process.Pid] = true
	p.orders, p.tree = inW, tree{root: p.helper.Process.Pid}
	return outR, nil
}

// command makes the helper start the command, and starts following its reports.
func (p *Process) command(a assignment, from *os.File) error {
	sent := gob.NewEncoder(p.orders).Encode(a)
	reports := bufio.NewReader(from)
	line, err := reports.ReadString('\n')
	var failed syscall.Errno
	switch n, _ := fmt.Sscanf(line, "failed %d\n", &failed); {
	case n == 1:
		err = failed
	case err != nil || sent != nil:
		err = fmt.Errorf("%w: %s has ended", ErrStart, HelperName)
	default:
		if _, err = fmt.Sscanf(line, "started %d\n", &p.pid); err != nil {
			err = fmt.Errorf("%w: %w", ErrStart, err)
		}
	}
	p.tree.group = p.pid
	go func() {
		defer func() { _ = from.Close() }()
		p.follow(reports)
	}()
	return err
}

// follow reads the helper's reports until the helper has ended.
func (p *Process) follow(reports *bufio.Reader) {
	for {
		line, err := reports.ReadString('\n')
		if err != nil {
			break
		}
		if line == "late\n" && !closed(p.exited) {
			p.late = true
		}
		var ws uint32
		if n, _ := fmt.Sscanf(line, "ended %d\n", &ws); n == 1 && !closed(p.exited) {
			p.status = syscall.WaitStatus(ws)
			close(p.exited)
		}
		var sig syscall.Signal
		if n, _ := fmt.Sscanf(line, "stopped %d\n", &sig); n == 1 {
			noteStop(p.stopped, sig)
		}
		if line == "gone\n" {
			close(p.gone)
		}
	}
	_ = p.helper.Wait()
	helpers.Lock()
	delete(helpers.pids, p.helper.Process.Pid)
	helpers.Unlock()
	if !closed(p.exited) { // the helper was killed, and with it the command
		p.status = syscall.WaitStatus(syscall.SIGKILL)
		close(p.exited)
	}
	if !closed(p.gone) {
		p.orphaned = !p.helper.ProcessState.Success()
		close(p.gone)
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

// noteStop sends sig unless an earlier signal was not received yet.
func noteStop(stopped chan<- syscall.Signal, sig syscall.Signal) {
	select {
	case stopped <- sig:
	default:
	}
}

// HasExited reports whether the command itself has ended.
func (p *Process) HasExited() bool { return closed(p.exited) }

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Extend sets the deadline until which the command may run. It is a point in time and not a
// duration, because this process may be stopped between computing and sending it.
func (p *Process) Extend(until Instant) {
	p.until = until
	p.send(fmt.Appendf(nil, untilLine, until))
}

// Report sends reports of electors to the helper, as in Command.Terms.
func (p *Process) Report(terms []byte) { p.send(terms) }

// send makes one attempt to write to the helper, and never blocks. The attempt fails only when the
// helper was stopped and has not read thousands of lines, or is dead.
func (p *Process) send(lines []byte) {
	raw, err := p.orders.SyscallConn()
	if err != nil || len(lines) == 0 {
		return
	}
	_ = raw.Write(func(fd uintptr) bool {
		_, _ = syscall.Write(int(fd), lines)
		return true
	})
}

// Until returns the deadline that Extend set last.
func (p *Process) Until() Instant { return p.until }

// KilledByHelper reports whether the helper has killed the command, because its deadline had
// passed.
func (p *Process) KilledByHelper() bool {
	return p.HasExited() && killed(p.status) && !p.killing && p.late
}

// HelperKilled reports whether the helper was killed, and with it the command.
func (p *Process) HelperKilled() bool { return closed(p.gone) && p.orphaned }

func killed(ws syscall.WaitStatus) bool { return ws.Signaled() && ws.Signal() == syscall.SIGKILL }

// Close ends the helper. If a process of the tree is left, the helper kills what it may, and waits
// for the others to end.
func (p *Process) Close() {
	p.send([]byte(doneLine))
	_ = p.orders.Close()
}

// isGone reports whether no process of the tree is left.
func (p *Process) isGone() bool {
	if !closed(p.gone) || !p.orphaned {
		return closed(p.gone)
	}
	living, _ := p.rest().signal(0)
	return living == 0
}

// signal sends sig to what is left of the tree.
func (p *Process) signal(sig syscall.Signal) {
	switch {
	case !closed(p.gone):
		p.tree.signal(sig)
		// Continue the helper: if it was stopped, it could neither reap nor report.
		_ = p.helper.Process.Signal(syscall.SIGCONT)
	case p.orphaned:
		p.rest().signal(sig)
	}
}

// rest returns what a killed helper has left, which is now below this process. If the helper of
// another command was killed, too, what that has left can't be distinguished from it.
func (p *Process) rest() tree { return tree{root: os.Getpid(), group: p.pid, spareHelpers: true} }

// Terminate sends SIGTERM to all processes of the tree, and continues them: a stopped process would
// not handle the signal.
func (p *Process) Terminate() {
	p.signal(syscall.SIGTERM)
	p.signal(syscall.SIGCONT)
}

// AwaitGone blocks until no process of the tree is left, or until timeout or force fires. It
// reports whether none is left.
func (p *Process) AwaitGone(timeout <-chan time.Time, force <-chan struct{}) bool {
	return p.await(timeout, force, p.isGone)
}

// Kill kills the tree repeatedly until no process of it is left: a single scan of a tree that grows
// misses new processes. It returns false if the timeout comes first.
func (p *Process) Kill(timeout <-chan time.Time) bool {
	p.killing = p.killing || Until(p.until) > 0 // after the deadline the helper kills the tree, too
	p.Extend(Now())                             // the helper sees processes even if this one has no file left to read /proc
	return p.await(timeout, nil, func() bool {
		p.signal(syscall.SIGKILL)
		return p.isGone()
	})
}

func (p *Process) await(timeout <-chan time.Time, force <-chan struct{}, done func() bool) bool {
	var pause pauses
	rescan := time.NewTimer(pause.next())
	defer rescan.Stop()
	gone := p.gone
	for !done() {
		select {
		case <-gone:
			gone = nil
		case <-rescan.C:
			rescan.Reset(pause.next())
		case <-timeout:
			return p.isGone()
		case <-force:
			return p.isGone()
		}
	}
	return true
}

// Left returns the living processes of the tree.
func (p *Process) Left() []Living {
	switch {
	case !closed(p.gone):
		return p.tree.living()
	case p.orphaned:
		return p.rest().living()
	default:
		return nil
	}
}

var adopt sync.Once

// Adopt makes this process adopt what a killed helper leaves behind. All children of this process
// must be started by this program.
func Adopt() { adopt.Do(startAdopting) }
