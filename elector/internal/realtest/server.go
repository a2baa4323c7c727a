//go:build unix

package realtest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// AOF makes a server keep its data over a restart, every write of it.
var AOF = []string{"--appendonly", "yes", "--appendfsync", "always"}

// startPatience is how long a server may take to start on a busy machine.
const startPatience = 20 * time.Second

// Server is a redis-server process of the test's own: on a free port of the
// loopback interface, in a directory of its own, ended with the test. Not safe
// for concurrent use, but for Addr, URL and Do.
type Server struct {
	Port int
	Dir  string

	args  []string
	ready string // what it logs when it serves
	tls   bool
	proc  *process // nil while it is down
}

type process struct {
	cmd  *exec.Cmd
	out  *output
	gone chan struct{} // closed when it has ended and was reaped
}

// output is what a process printed.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// Need skips loudly where there is no redis-server, and fails where one is
// required.
func Need(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err == nil {
		return
	}
	const install = "no redis-server on PATH: install it (Debian: apt-get install redis-server)"
	if os.Getenv("MANDATE_TEST_REQUIRE_REDIS") == "1" {
		t.Fatal(install + "; MANDATE_TEST_REQUIRE_REDIS=1 requires it here")
	}
	t.Skip("SKIPPED, nothing was tested on a real Redis: " + install)
}

// Start runs a server with the given arguments of redis-server. Without any it
// keeps nothing on disk.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	return start(t, &Server{args: args, ready: "Ready to accept connections"})
}

// StartN runs n of them.
func StartN(t testing.TB, n int, args ...string) []*Server {
	t.Helper()
	all := make([]*Server, n)
	for i := range all {
		all[i] = Start(t, args...)
	}
	return all
}

func start(t testing.TB, s *Server) *Server {
	t.Helper()
	Need(t)
	s.Dir = t.TempDir()
	if s.Port == 0 {
		s.Port = FreePort(t)
	}
	t.Cleanup(func() {
		if t.Failed() && s.proc != nil {
			t.Logf("redis-server on %s said:\n%s", s.Addr(), tail(s.proc.out.String(), 5))
		}
		s.Kill()
	})
	s.Restart(t)
	return s
}

// FreePort is a port of the loopback interface that nobody listens on now.
func FreePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// Addr is host:port.
func (s *Server) Addr() string { return "127.0.0.1:" + strconv.Itoa(s.Port) }

// URL is what elector.Open takes.
func (s *Server) URL() string { return "redis://" + s.Addr() }

// Restart starts the server again, with whatever its directory holds.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.Kill()
	port := []string{"--port", strconv.Itoa(s.Port)}
	if s.tls {
		port = []string{"--port", "0", "--tls-port", strconv.Itoa(s.Port)}
	}
	args := append([]string{"--bind", "127.0.0.1", "--dir", s.Dir, "--save", "", "--daemonize", "no"}, port...)
	if len(s.args) > 0 && !strings.HasPrefix(s.args[0], "-") { // a file of settings comes first
		args = append(s.args[:1:1], append(args, s.args[1:]...)...)
	} else {
		args = append(args, s.args...)
	}
	p := &process{cmd: exec.Command("redis-server", args...), out: &output{}, gone: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	p.cmd.Dir, p.cmd.SysProcAttr = s.Dir, orphan()
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // it is killed, or it did not start: out tells
		close(p.gone)
	}()
	s.proc = p
	for limit := time.Now().Add(startPatience); !strings.Contains(p.out.String(), s.ready); {
		select {
		case <-p.gone:
			t.Fatalf("redis-server ended at its start:\n%s", p.out)
		case <-time.After(2 * time.Millisecond):
		}
		if time.Now().After(limit) {
			t.Fatalf("redis-server does not start:\n%s", p.out)
		}
	}
}

// Kill ends the server without a goodbye (SIGKILL), also a hung one.
func (s *Server) Kill() {
	if s.proc == nil {
		return
	}
	_ = s.proc.cmd.Process.Kill() // an error: it has ended by itself
	<-s.proc.gone
	s.proc = nil
}

// Forget removes what a server that is down had kept on disk.
func (s *Server) Forget(t testing.TB) {
	t.Helper()
	entries, err := os.ReadDir(s.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(s.Dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
}

// Up tells whether the server was started and not killed since.
func (s *Server) Up() bool { return s.proc != nil }

// Hang stops the process (SIGSTOP): it accepts connections and never answers.
func (s *Server) Hang(t testing.TB) { t.Helper(); s.signal(t, syscall.SIGSTOP) }

// Wake makes a hung server go on.
func (s *Server) Wake(t testing.TB) { t.Helper(); s.signal(t, syscall.SIGCONT) }

func (s *Server) signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if err := s.proc.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// Client is an operator's connection. It ends with the test.
func (s *Server) Client(t testing.TB, change ...func(*redis.Options)) *redis.Client {
	t.Helper()
	o := &redis.Options{Addr: s.Addr(), DisableIdentity: true}
	for _, f := range change {
		f(o)
	}
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Do runs one command as an operator would by redis-cli, and wants it to work.
func (s *Server) Do(t testing.TB, args ...any) any {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: s.Addr(), DisableIdentity: true})
	defer c.Close()
	v, err := c.Do(context.Background(), args...).Result()
	if err != nil {
		t.Fatalf("%s: %v: %v", s.Addr(), args, err)
	}
	return v
}

// Eventually asks until ok holds.
func Eventually(t testing.TB, within time.Duration, what string, ok func() bool) {
	t.Helper()
	for limit := time.Now().Add(within); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}

func tail(s string, lines int) string {
	all := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

func fill(lines ...string) []byte { return fmt.Append(nil, strings.Join(lines, "\n"), "\n") }
