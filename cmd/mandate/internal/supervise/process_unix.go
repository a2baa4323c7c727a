//go:build unix

package supervise

import (
	"bufio"
	"encoding/gob"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
)

// Supported returns an error if this system lacks what is needed to run a command safely.
func Supported() error { return nil }

// Process is a running command with everything that it has started. Its methods must be called from
// one goroutine.
type Process struct {
	pid    int
	reaper *exec.Cmd
	pipe   *os.File // to the reaper, which sees its end when mandate dies
	tree   tree     // the descendants of the reaper
	us     tree     // the descendants of this process, among them the tree if the reaper was killed

	exited, gone chan struct{}
	stopped      chan syscall.Signal
	status       syscall.WaitStatus // set before exited is closed
	late         bool               // set before exited is closed: the reaper has killed the tree in the guard's place
	orphaned     bool               // set before gone is closed: the reaper was killed, the rest of the tree is below this process

	guard *guard
	until Instant // the deadline that was last sent to the guard

	events  *os.File // cgroup.events; nil: to be opened for each read
	outside error    // why the command has no cgroup

	killing bool // this process has killed the tree, before the guard had to
}

// Start starts the command, and the guard, which kills the command at until, unless that is
// extended, or when this process dies. The error is ErrStart, or that of exec.
func Start(c Command, until Instant) (*Process, error) {
	g, err := startGuard()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
	}
	p := &Process{exited: make(chan struct{}), gone: make(chan struct{}), stopped: make(chan syscall.Signal, 1), guard: g}
	p.us = tree{root: os.Getpid(), start: identify(os.Getpid())}
	reports, err := p.startReaper(c)
	if err != nil {
		g.dismiss()
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
	}
	if c.Cgroup {
		p.tree.cgroup, p.outside = newCgroup()
		p.events = p.tree.cgroup.events()
	}
	p.Extend(until)
	if err := p.command(c, reports); err != nil {
		<-p.gone
		p.Close()
		return nil, err
	}
	p.Extend(until) // now with the process group
	return p, nil
}

// startReaper starts the process that becomes the command's parent. Its reports can be read from
// the returned file.
func (p *Process) startReaper(c Command) (reports *os.File, err error) {
	if p.reaper, err = helper(ReaperName); err != nil {
		return nil, err
	}
	inR, inW, err := os.Pipe()
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
	p.reaper.Stdin, p.reaper.Stdout, p.reaper.Stderr = os.Stdin, os.Stdout, os.Stderr // for the command
	p.reaper.ExtraFiles = []*os.File{inR, outW}                                       // fdCommand, fdReports
	if c.releaser != nil {
		p.reaper.ExtraFiles = append(p.reaper.ExtraFiles, c.releaser.w) // fdReleaser
	}
	p.reaper.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // it receives no Ctrl-C and no Ctrl-Z
	if err := p.reaper.Start(); err != nil {
		_ = inW.Close()
		_ = outR.Close()
		return nil, err
	}
	p.pipe = inW
	p.tree = tree{root: p.reaper.Process.Pid, start: identify(p.reaper.Process.Pid)}
	return outR, nil
}

// command makes the reaper start the command, and starts following its reports.
func (p *Process) command(c Command, from *os.File) error {
	sent := gob.NewEncoder(p.pipe).Encode(assignment{Command: c, Cgroup: p.tree.cgroup, Term: c.term})
	reports := bufio.NewReader(from)
	line, err := reports.ReadString('\n')
	var failed syscall.Errno
	switch n, _ := fmt.Sscanf(line, "failed %d\n", &failed); {
	case n == 1:
		err = failed
	case err != nil || sent != nil:
		err = fmt.Errorf("%w: the %s process has ended", ErrStart, ReaperName)
	default:
		var outside syscall.Errno
		if _, err = fmt.Sscanf(line, "started %d %d\n", &p.pid, &outside); err != nil {
			err = fmt.Errorf("%w: %w", ErrStart, err)
		}
		if outside != 0 {
			p.outside = fmt.Errorf("%s: %w", p.tree.cgroup, outside)
			p.tree.cgroup.remove()
			p.tree.cgroup = ""
			_ = p.events.Close()
			p.events = nil
		}
	}
	p.tree.group = p.pid
	go func() {
		defer func() { _ = from.Close() }()
		p.follow(reports)
	}()
	return err
}

// follow reads the reaper's reports until the reaper has ended.
func (p *Process) follow(reports *bufio.Reader) {
	ended := false
	for {
		line, err := reports.ReadString('\n')
		if err != nil {
			break
		}
		if line == detached && !ended {
			p.late = true
		}
		var ws uint32
		if n, _ := fmt.Sscanf(line, "ended %d\n", &ws); n == 1 && !ended {
			ended, p.status = true, syscall.WaitStatus(ws)
			close(p.exited)
		}
		var sig syscall.Signal
		if n, _ := fmt.Sscanf(line, "stopped %d\n", &sig); n == 1 {
			noteStop(p.stopped, sig)
		}
	}
	_ = p.reaper.Wait()
	if !ended { // the reaper was killed, and with it the command
		p.status = syscall.WaitStatus(syscall.SIGKILL)
		close(p.exited)
	}
	p.orphaned = !p.reaper.ProcessState.Success()
	close(p.gone)
}

// Cgroup returns the cgroup in which the command was started. err is why it has no cgroup of its
// own, which is no failure: the tree can be ended without one.
func (p *Process) Cgroup() (dir string, err error) { return string(p.tree.cgroup), p.outside }

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
	o := keepAlive{tree: p.tree, mandate: p.us, until: until}
	p.guard.send(o)
	if p.pid != 0 { // before that, the reaper expects the command on this pipe
		writeNow(p.pipe, o.line())
	}
}

// Until returns the deadline that Extend set last.
func (p *Process) Until() Instant { return p.until }

// GuardGone is closed when the current guard has ended. Each guard has its own channel.
func (p *Process) GuardGone() <-chan struct{} { return p.guard.gone }

// GuardPID returns the process id of the guard, for the log.
func (p *Process) GuardPID() int { return p.guard.cmd.Process.Pid }

// ReplaceGuard starts another guard in the place of one that has ended.
func (p *Process) ReplaceGuard() error {
	g, err := startGuard()
	if err != nil {
		return err
	}
	p.guard.dismiss()
	p.guard = g
	p.Extend(p.until)
	return nil
}

// GuardHasKilled reports whether the guard has ended because it has killed the tree.
func (p *Process) GuardHasKilled() bool { return closed(p.guard.gone) && p.guard.hasKilled() }

// KilledByGuard reports whether the command was killed by the guard, or by the reaper, which has
// the same deadline.
func (p *Process) KilledByGuard() bool {
	return p.HasExited() && killed(p.status) && !p.killing && (p.late || p.guard.isKilling())
}

func killed(ws syscall.WaitStatus) bool { return ws.Signaled() && ws.Signal() == syscall.SIGKILL }

// Close ends the helpers. If a process of the tree is left, the reaper kills what it may, and waits
// for the others to end.
func (p *Process) Close() {
	p.guard.dismiss()
	_ = p.pipe.Close()
	_ = p.events.Close() // a nil file is fine
	p.events = nil
	p.tree.cgroup.remove()
}

var adopt sync.Once

// Adopt makes this process adopt what a killed reaper leaves behind. All children of this process
// must be started by this program.
func Adopt() { adopt.Do(startAdopting) }
