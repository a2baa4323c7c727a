//go:build unix

package main

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
// only we write to. When we are killed, the kernel closes the pipe, and the guard
// kills the command's process group: the command must not outlive its lease. The
// same happens when we fall silent beyond the lease, because somebody stopped us
// (SIGSTOP, Ctrl-Z). Linux' Pdeathsig alone would not do: it reaches the command,
// but not what the command has started, and not a stopped parent.

// guardName is argv[0] of the guard. It doesn't hold "mandate run", so that a
// `pkill -f 'mandate run'` doesn't kill the guard along with us.
const guardName = "mandate-guard"

// guardHandle is our end.
type guardHandle struct {
	cmd  *exec.Cmd
	mu   sync.Mutex
	pipe *os.File
	gone chan struct{} // closed when the guard has ended
}

func startGuard() (*guardHandle, error) {
	self, err := selfPath()
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe() // close-on-exec: the command doesn't inherit our end
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	g := &guardHandle{pipe: w, gone: make(chan struct{})}
	g.cmd = exec.Command(self) //nolint:noctx // it lives as long as the command, and dismiss ends it
	g.cmd.Args = []string{guardName}
	g.cmd.Dir = "/"
	g.cmd.Stdin = r // stdout and stderr are /dev/null: it keeps no terminal or pipe of yours open
	g.cmd.SysProcAttr = detached()
	if err := g.cmd.Start(); err != nil {
		_ = w.Close()
		return nil, err
	}
	go func() {
		_ = g.cmd.Wait()
		close(g.gone)
	}()
	return g, nil
}

// tell names the group, and how long it may live if nothing more is heard. It
// never blocks: one attempt to write, which fails only when a guard hasn't read
// thousands of lines.
func (g *guardHandle) tell(o order) {
	g.mu.Lock()
	defer g.mu.Unlock()
	writeNow(g.pipe, o.line())
}

// dismiss ends the guard: the group is gone, and its number may soon be another's.
func (g *guardHandle) dismiss() {
	_ = g.cmd.Process.Kill()
	<-g.gone
	g.mu.Lock()
	defer g.mu.Unlock()
	_ = g.pipe.Close()
}

// guardMain is the other process.
func guardMain() {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	guard(os.Stdin)
}

// guard follows what tell writes, until the pipe closes or falls silent.
func guard(pipe io.Reader) {
	orders := make(chan order)
	go func() {
		defer close(orders)
		lines := bufio.NewReader(pipe)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			// When we come late, only the newest of what has piled up counts.
			if o, ok := readOrder(line); ok && lines.Buffered() == 0 {
				orders <- o
			}
		}
	}()
	group := 0
	silence := time.NewTimer(time.Hour)
	silence.Stop()
	for {
		select {
		case o, ok := <-orders:
			if !ok {
				killIt(group)
				return
			}
			group = o.group
			silence.Reset(o.remaining(time.Now()))
		case <-silence.C:
			killIt(group)
			return
		}
	}
}

// order is what tell says.
type order struct {
	group int
	left  time.Duration
	said  time.Time // by the wall clock, which is the one that two processes share
}

func (o order) line() []byte {
	return fmt.Appendf(nil, "%d %d %d\n", o.group, o.left.Nanoseconds(), o.said.UnixNano())
}

func readOrder(line string) (o order, ok bool) {
	var said int64
	n, _ := fmt.Sscanf(line, "%d %d %d\n", &o.group, &o.left, &said)
	o.said = time.Unix(0, said)
	return o, n == 3
}

// remaining is what is left of an order when it is read: on a busy machine that is
// later than it was said. A wall clock that was set meanwhile can make it shorter,
// and never longer.
func (o order) remaining(now time.Time) time.Duration {
	return min(max(0, o.left-now.Sub(o.said)), o.left)
}

func killIt(group int) {
	if group > 1 { // 0 and 1 would be ourselves and everybody
		signalGroup(group, true)
	}
}
