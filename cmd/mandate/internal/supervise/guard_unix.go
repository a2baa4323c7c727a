//go:build unix

package supervise

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// The guard is a second, tiny process of this program. It reads from a pipe that only mandate
// writes to. When mandate is killed, the kernel closes the pipe and the guard kills the tree: the
// command must not outlive its lease. The guard does the same when mandate does not extend its
// deadline, because mandate was stopped (SIGSTOP, Ctrl-Z). Every keepAlive contains everything that
// the guard knows, so that another guard can replace it at any time.

// guard is mandate's handle of a guard process.
type guard struct {
	cmd    *exec.Cmd
	mu     sync.Mutex
	pipe   *os.File
	report *os.File      // the guard writes to it before it kills the tree
	began  bool          // the report was read; owned by the goroutine of the Process
	gone   chan struct{} // closed when the guard has ended
}

// fdKilling is the guard's only file other than the standard ones. The guard writes to it before it
// kills.
const fdKilling = 3

func startGuard() (*guard, error) {
	cmd, err := helper(GuardName)
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe() // close-on-exec: the command doesn't inherit the write end
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	report, killing, err := os.Pipe()
	if err != nil {
		_ = w.Close()
		return nil, err
	}
	defer func() { _ = killing.Close() }()
	g := &guard{cmd: cmd, pipe: w, report: report, gone: make(chan struct{})} // dismiss ends it
	g.cmd.Dir = "/"
	g.cmd.ExtraFiles = []*os.File{killing} // fdKilling
	g.cmd.Stdin = r                        // stdout and stderr are /dev/null, so that the guard keeps no terminal or pipe open
	// Its own session: it receives no Ctrl-C, no Ctrl-Z and no hangup of the terminal.
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := g.cmd.Start(); err != nil {
		_, _ = w.Close(), report.Close()
		return nil, err
	}
	go func() {
		_ = g.cmd.Wait()
		close(g.gone)
	}()
	return g, nil
}

// send tells the guard the tree and its deadline, which another keepAlive may extend. It never
// blocks: it makes one attempt to write, which fails only when the guard has not read thousands of
// lines.
func (g *guard) send(o keepAlive) {
	g.mu.Lock()
	defer g.mu.Unlock()
	writeNow(g.pipe, o.line())
}

// writeNow makes one attempt to write to a pipe, and never blocks.
func writeNow(pipe *os.File, line []byte) {
	raw, err := pipe.SyscallConn()
	if err != nil {
		return
	}
	// Errors are ignored: that the pipe is closed shows in the end of the process that reads it.
	_ = raw.Write(func(fd uintptr) bool {
		_, _ = syscall.Write(int(fd), line)
		return true
	})
}

// dismiss ends the guard, which is no longer needed.
func (g *guard) dismiss() {
	_ = g.cmd.Process.Kill()
	<-g.gone
	g.mu.Lock()
	defer g.mu.Unlock()
	_, _ = g.pipe.Close(), g.report.Close()
}

// isKilling reports whether the guard has begun to kill the tree. The guard reports that before it
// kills, so once a process was killed by it the report is there, and this need not wait.
func (g *guard) isKilling() bool {
	raw, err := g.report.SyscallConn()
	if err != nil {
		return g.began
	}
	_ = raw.Read(func(fd uintptr) bool {
		n, _ := syscall.Read(int(fd), make([]byte, 1))
		g.began = g.began || n == 1
		return true
	})
	return g.began
}

// exitKilled is the exit code of a guard that has killed the tree. A guard that ends otherwise was
// killed by another process. (No test distinguishes this code from 0, which would do as well.)
const exitKilled = 9

func (g *guard) hasKilled() bool { return g.cmd.ProcessState.ExitCode() == exitKilled }

// GuardMain is the main function of the guard process.
func GuardMain() {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	last := follow(os.Stdin, Now)
	_, _ = syscall.Write(fdKilling, []byte("k"))
	last.enforce()
	os.Exit(exitKilled)
}

// follow reads keepAlives until the pipe closes or the last one has expired, and returns the last
// one.
func follow(pipe io.Reader, now func() Instant) (last keepAlive) {
	messages := make(chan keepAlive)
	go func() {
		defer close(messages)
		lines := bufio.NewReader(pipe)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			// If this process is late, only the newest of the buffered lines counts.
			if o, ok := readKeepAlive(line); ok && lines.Buffered() == 0 {
				messages <- o
			}
		}
	}()
	expiry := time.NewTimer(time.Hour)
	expiry.Stop()
	for {
		select {
		case o, ok := <-messages:
			if !ok {
				return last
			}
			last = o
		case <-expiry.C:
			if last.remaining(now()) <= 0 {
				return last
			}
		}
		// A timer stops while the machine is suspended, but the lease does not: so the deadline is
		// checked at short intervals.
		expiry.Reset(min(last.remaining(now()), recheckEvery))
	}
}

// recheckEvery bounds how late the guard acts after the machine was suspended.
const recheckEvery = 250 * time.Millisecond

// keepAlive is the message that allows a tree to live until a deadline.
type keepAlive struct {
	tree    tree
	mandate tree // mandate's descendants: they include the tree if the reaper was killed
	until   Instant
}

func (o keepAlive) line() []byte {
	return fmt.Appendf(nil, "%d %d %d %d %d %d %q\n", o.tree.root, o.tree.start, o.tree.group, o.mandate.root, o.mandate.start, o.until, string(o.tree.cgroup))
}

func readKeepAlive(line string) (o keepAlive, ok bool) {
	var group string
	n, _ := fmt.Sscanf(line, "%d %d %d %d %d %d %q\n", &o.tree.root, &o.tree.start, &o.tree.group, &o.mandate.root, &o.mandate.start, &o.until, &group)
	o.tree.cgroup = cgroup(group)
	return o, n == 7
}

// remaining returns the time that is left of a keepAlive at now. On a busy machine it is read later
// than it was written.
func (o keepAlive) remaining(now Instant) time.Duration { return max(0, o.until.Sub(now)) }

// enforce kills the tree. If another process has killed the reaper, and has stopped mandate before
// it could clean up, the processes of the tree are below mandate.
func (o keepAlive) enforce() {
	if o.tree.root <= 1 { // no tree was named yet
		return
	}
	o.tree.kill()
	if o.mandate.root > 1 && o.mandate.rootStopped() {
		rest := o.mandate
		rest.left = true
		rest.signal(syscall.SIGKILL)
	}
}
