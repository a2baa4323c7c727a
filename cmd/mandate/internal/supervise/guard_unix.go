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

// The guard is a second, tiny process of this program. It reads from a pipe that
// only mandate writes to. When mandate is killed, the kernel closes the pipe, and
// the guard kills the tree: the command must not outlive its lease. The same happens
// when mandate sends nothing beyond the lease, because it was stopped (SIGSTOP,
// Ctrl-Z). All that the guard knows is in every keepAlive, so that another guard can take
// its place at any time.

// guard is mandate's end.
type guard struct {
	cmd    *exec.Cmd
	mu     sync.Mutex
	pipe   *os.File
	report *os.File      // from the guard: that it kills the tree, before it does so
	began  bool          // it was read; of the goroutine of the Process
	gone   chan struct{} // closed when the guard has ended
}

// fdKilling is the guard's file beside the standard ones. It writes before it kills.
const fdKilling = 3

func startGuard() (*guard, error) {
	cmd, err := helper(GuardName)
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe() // close-on-exec: the command doesn't inherit our end
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
	g.cmd.Stdin = r                        // stdout and stderr are /dev/null: it keeps no terminal or pipe of yours open
	// Its own session: neither Ctrl-C nor Ctrl-Z nor the end of the terminal reaches it.
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

// send names the tree, and how long it may live unless another keepAlive arrives. It never
// blocks: one attempt to write, which fails only when a guard hasn't read thousands
// of lines.
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
	// A closed pipe is seen by the end of the process that read from it.
	_ = raw.Write(func(fd uintptr) bool {
		_, _ = syscall.Write(int(fd), line)
		return true
	})
}

// dismiss ends the guard: the tree is gone.
func (g *guard) dismiss() {
	_ = g.cmd.Process.Kill()
	<-g.gone
	g.mu.Lock()
	defer g.mu.Unlock()
	_, _ = g.pipe.Close(), g.report.Close()
}

// isKilling reports whether the guard has begun to kill the tree. What it killed is dead after it
// wrote so: nothing has to be waited for.
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

// exitKilled is the exit code of a guard that has killed the tree: any other end of
// the guard is not its own. (No test distinguishes it from 0, which is as good.)
const exitKilled = 9

func (g *guard) hasKilled() bool { return g.cmd.ProcessState.ExitCode() == exitKilled }

// GuardMain is the guard process.
func GuardMain() {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	last := follow(os.Stdin, Now)
	_, _ = syscall.Write(fdKilling, []byte("k"))
	last.enforce()
	os.Exit(exitKilled)
}

// follow reads what send writes until the pipe closes or the last keepAlive has run out,
// and returns that one.
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
			// When we come late, only the newest of what has piled up counts.
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
		// A timer stands still while the machine is suspended, and the lease doesn't: so
		// it is checked again before the time has passed.
		expiry.Reset(min(last.remaining(now()), recheckEvery))
	}
}

// recheckEvery bounds how late the guard acts after the machine was suspended.
const recheckEvery = 250 * time.Millisecond

// keepAlive is the message that lets a tree live on until a point in time.
type keepAlive struct {
	tree    tree
	mandate tree // what mandate has inherited: the tree is in it if the reaper was killed
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

// remaining is what is left of a keepAlive when it is read: on a busy machine that is
// later than it was written.
func (o keepAlive) remaining(now Instant) time.Duration { return max(0, o.until.Sub(now)) }

// enforce kills the tree. If another process has killed its reaper, and stopped mandate
// before it could clean up, what was in the tree is below mandate.
func (o keepAlive) enforce() {
	if o.tree.root <= 1 { // nothing was named yet
		return
	}
	o.tree.kill()
	if o.mandate.root > 1 && o.mandate.rootStopped() {
		rest := o.mandate
		rest.left = true
		rest.signal(syscall.SIGKILL)
	}
}
