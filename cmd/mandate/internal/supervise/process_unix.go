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

// Supported reports whether this system has what running a command safely needs.
func Supported() error { return nil }

// Process is a running command with everything that it has started. Its methods are
// for one goroutine.
type Process struct {
	pid    int
	reaper *exec.Cmd
	pipe   *os.File // to the reaper: its end is ours
	tree   tree     // below the reaper
	us     tree     // below this process, where a killed reaper leaves it

	exited, gone chan struct{}
	stopped      chan syscall.Signal
	status       syscall.WaitStatus // set when exited is closed
	late         bool               // set when exited is closed: the reaper has killed the tree in the guard's place
	orphaned     bool               // set when gone is closed: the reaper was killed, the rest of the tree is below us

	guard *guard
	until Instant // what was sent to the guard last

	events  *os.File // of the cgroup; nil: it has to be opened
	outside error    // why the command has no cgroup

	killing bool // we have killed the tree ourselves, before the guard had to
}

// Start starts the command, and the guard that kills it when we can't: until then it
// may run unless it is extended. The error is ErrStart, or that of exec.
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
	p.Extend(until) // now with the group
	return p, nil
}

// startReaper starts the process that becomes the command's parent. What it reports
// comes out of the file.
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
	p.reaper.Stdin, p.reaper.Stdout, p.reaper.Stderr = os.Stdin, os.Stdout, os.Stderr // the command's
	p.reaper.ExtraFiles = []*os.File{inR, outW}                                       // fdCommand, fdReports
	if c.releaser != nil {
		p.reaper.ExtraFiles = append(p.reaper.ExtraFiles, c.releaser.w) // fdReleaser
	}
	p.reaper.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // no Ctrl-C, no Ctrl-Z
	if err := p.reaper.Start(); err != nil {
		_ = inW.Close()
		_ = outR.Close()
		return nil, err
	}
	p.pipe = inW
	p.tree = tree{root: p.reaper.Process.Pid, start: identify(p.reaper.Process.Pid)}
	return outR, nil
}

// command has the reaper start the command, and follows what it reports.
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

// follow reads the reaper's reports until it has ended.
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
	if !ended { // the reaper was killed, and the command with it
		p.status = syscall.WaitStatus(syscall.SIGKILL)
		close(p.exited)
	}
	p.orphaned = !p.reaper.ProcessState.Success()
	close(p.gone)
}

// Cgroup is the one that the command was started in; the error is why it has none of its
// own: no fault, the tree is ended without one, too.
func (p *Process) Cgroup() (dir string, err error) { return string(p.tree.cgroup), p.outside }

// PID is that of the command.
func (p *Process) PID() int { return p.pid }

// Exited is closed when the command itself has ended; Status then has how.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Status is that of the command, once it has ended.
func (p *Process) Status() syscall.WaitStatus { return p.status }

// Stopped receives the signal by which the terminal has stopped the command.
func (p *Process) Stopped() <-chan syscall.Signal { return p.stopped }

// noteStop keeps the first signal that was not received yet.
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

// Extend sets until when the command may run unless it is extended again. A point
// in time, and not a duration: we may be stopped on the way from the one to the other.
func (p *Process) Extend(until Instant) {
	p.until = until
	o := keepAlive{tree: p.tree, mandate: p.us, until: until}
	p.guard.send(o)
	if p.pid != 0 { // before, the reaper waits for the command
		writeNow(p.pipe, o.line())
	}
}

// Until is what Extend set last.
func (p *Process) Until() Instant { return p.until }

// GuardGone is closed when the guard has ended. Another guard has another one.
func (p *Process) GuardGone() <-chan struct{} { return p.guard.gone }

// GuardPID is for the log.
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

// GuardHasKilled reports whether the guard has ended, and by killing the tree.
func (p *Process) GuardHasKilled() bool { return closed(p.guard.gone) && p.guard.hasKilled() }

// KilledByGuard reports whether the guard has ended the command, or the reaper in its place: both have the
// same keepAlive.
func (p *Process) KilledByGuard() bool {
	return p.HasExited() && killed(p.status) && !p.killing && (p.late || p.guard.isKilling())
}

func killed(ws syscall.WaitStatus) bool { return ws.Signaled() && ws.Signal() == syscall.SIGKILL }

// Close ends the helpers. If something of the tree is left, the reaper kills what it
// may, and waits for the end of the rest.
func (p *Process) Close() {
	p.guard.dismiss()
	_ = p.pipe.Close()
	_ = p.events.Close() // nil, it has nothing to close
	p.events = nil
	p.tree.cgroup.remove()
}

var adopt sync.Once

// Adopt makes this process, whose children are all ours, the parent of what a killed
// reaper leaves behind.
func Adopt() { adopt.Do(startAdopting) }
