package servertest

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// startLimit is how long a server may take to start, on a small and busy machine.
const startLimit = 60 * time.Second

// missing skips the test, or fails it if the environment variable requires the server.
func missing(t testing.TB, server, variable, install string) {
	t.Helper()
	if os.Getenv(variable) == "1" {
		t.Fatalf("%s is required (%s=1) and was not found: install it (Debian: %s)", server, variable, install)
	}
	t.Skipf("SKIPPED: no %s was found: nothing here was tested against a real one. Install it (Debian: %s)", server, install)
}

// NeedProgram returns the path of the first of the programs that is installed. If none is, the
// test is skipped, or fails if the variable MANDATE_TEST_REQUIRE_<NAME> is "1", where <NAME> is the
// first name in capitals, with _ for each -. install is the command that installs the program.
func NeedProgram(t testing.TB, install string, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	variable := "MANDATE_TEST_REQUIRE_" + strings.ToUpper(strings.ReplaceAll(names[0], "-", "_"))
	missing(t, names[0], variable, install)
	return ""
}

// process is a running server.
type process struct {
	cmd  *exec.Cmd
	out  *Logbook
	gone chan struct{} // closed when the process has ended and was reaped
}

// launch starts a server and waits until it has printed that it is ready.
func launch(t testing.TB, cmd *exec.Cmd, ready string) *process {
	t.Helper()
	p := &process{cmd: cmd, out: &Logbook{}, gone: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = p.out, p.out
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = orphan()
	}
	Must(t, cmd.Start())
	go func() {
		_ = cmd.Wait() // the process was killed, or did not start properly: out shows which
		close(p.gone)
	}()
	for limit := time.Now().Add(startLimit); !strings.Contains(p.out.String(), ready); {
		select {
		case <-p.gone:
			t.Fatalf("%s ended at its start:\n%s", filepath.Base(cmd.Path), p.out)
		case <-time.After(2 * time.Millisecond):
		}
		if time.Now().After(limit) {
			p.kill()
			t.Fatalf("%s is not ready after %v:\n%s", filepath.Base(cmd.Path), startLimit, p.out)
		}
	}
	return p
}

// kill ends the process with SIGKILL, even if it is stopped, and waits for its end.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // an error means that the process has ended already
	<-p.gone
}

// end lets the process shut down, and kills it after 10 s. The signal by should be the one for a
// shutdown that does not wait for clients.
func (p *process) end(by os.Signal) {
	_ = p.cmd.Process.Signal(by)
	select {
	case <-p.gone:
	case <-time.After(10 * time.Second):
		p.kill()
	}
}

// Logbook collects what a program prints or logs. Safe for concurrent use.
type Logbook struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (l *Logbook) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

// String returns all that was written.
func (l *Logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// Lines returns the lines that hold all the words.
func (l *Logbook) Lines(with ...string) (all []string) {
	for line := range strings.Lines(l.String()) {
		if !slices.ContainsFunc(with, func(word string) bool { return !strings.Contains(line, word) }) {
			all = append(all, line)
		}
	}
	return all
}

// Logger returns a logger that writes to the logbook, also what only debugging needs.
func (l *Logbook) Logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// The ports of test servers are below those that systems assign to outgoing connections
// (32768 and up), so that no connection can take a port between FreePort and the server's
// start, or while a killed server is down. The bus ports of clusters, 10000 higher, are below
// them, too. Packages are tested in parallel processes: each process has a block of its own,
// and uses no port twice before it has used all ports of the block.
const (
	firstPort = 14000
	blocks    = 64
	blockSize = 125
)

// block is the block of this process: a process owns a block while it listens on the first port.
var block struct {
	mu    sync.Mutex
	owner net.Listener // until the process ends
	first int
	drawn int
}

// FreePort returns a port of the loopback interface on which no process listens now.
func FreePort(t testing.TB) int {
	t.Helper()
	block.mu.Lock()
	defer block.mu.Unlock()
	for i := 0; block.owner == nil; i++ {
		if i == blocks {
			t.Fatalf("no free block of ports from %d to %d: what listens there?", firstPort, firstPort+blocks*blockSize-1)
		}
		first := firstPort + (os.Getpid()+i)%blocks*blockSize
		if l, err := listen(first); err == nil {
			block.owner, block.first = l, first
		}
	}
	for range blockSize - 1 {
		port := block.first + 1 + block.drawn%(blockSize-1)
		block.drawn++
		if l, err := listen(port); err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatalf("no free port from %d to %d: what listens there?", block.first+1, block.first+blockSize-1)
	return 0
}

func listen(port int) (net.Listener, error) {
	return net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
}
