//go:build unix

package servertest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// AOF makes a server keep its data over a restart, every write of it.
var AOF = []string{"--appendonly", "yes", "--appendfsync", "always"}

// serves is what a redis-server logs when it does.
const serves = "Ready to accept connections"

// Server is a redis-server process of the test's own: on a free port of the
// loopback interface, in its own directory, ended with the test. Not safe
// for concurrent use, but for Addr, URL and Do.
type Server struct {
	Port int
	Dir  string

	args  []string
	ready string // what it logs when it serves
	tls   bool
	proc  *process // nil while it is down
}

// serverVariable is the environment variable that names the server to test
// with, by its absolute path: a Valkey, or a Redis other than the installed one.
// It takes the command line of redis-server.
const serverVariable = "MANDATE_TEST_REDIS_SERVER"

// redisServer is the program that every test of this module runs as its Redis.
// A named one that is missing is an error: the test would run on another server
// than the one that was requested.
func redisServer(t testing.TB) string {
	t.Helper()
	if named := os.Getenv(serverVariable); named != "" {
		if _, err := exec.LookPath(named); err != nil || !filepath.IsAbs(named) {
			t.Fatalf("%s=%s is not the absolute path of a program", serverVariable, named)
		}
		return named
	}
	path, err := exec.LookPath("redis-server")
	if err != nil {
		missing(t, "redis-server", "MANDATE_TEST_REQUIRE_REDIS", "apt-get install redis-server")
	}
	return path
}

// Version is the name and the version of the server that the tests run, as the
// program itself prints them: "Redis 7.0.15", "Valkey 9.1.2".
func Version(t testing.TB) string {
	t.Helper()
	out, err := exec.Command(redisServer(t), "--version").Output()
	name, rest, ok := strings.Cut(string(out), " server v=")
	if err != nil || !ok {
		t.Fatalf("%q, %v: it does not print its version", out, err)
	}
	return name + " " + strings.Fields(rest + " ?")[0]
}

// NeedRedis skips loudly where there is no redis-server, and fails where one is
// required.
func NeedRedis(t testing.TB) { t.Helper(); redisServer(t) }

// Redis runs a server with the given arguments of redis-server. Without any it
// keeps nothing on disk.
func Redis(t testing.TB, args ...string) *Server {
	t.Helper()
	return RedisOn(t, FreePort(t), args...)
}

// RedisOn is Redis on a port that was known before.
func RedisOn(t testing.TB, port int, args ...string) *Server {
	t.Helper()
	return start(t, &Server{Port: port, args: args, ready: serves})
}

// RedisN runs n of them.
func RedisN(t testing.TB, n int, args ...string) []*Server {
	t.Helper()
	all := make([]*Server, n)
	for i := range all {
		all[i] = Redis(t, args...)
	}
	return all
}

func start(t testing.TB, s *Server) *Server {
	t.Helper()
	NeedRedis(t) // before anything else is made
	s.Dir = t.TempDir()
	t.Cleanup(func() {
		if t.Failed() && s.proc != nil {
			t.Logf("the redis-server on %s printed:\n%s", s.Addr(), tail(s.proc.out.String(), 5))
		}
		s.Kill()
	})
	s.Restart(t)
	return s
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
	cmd := exec.Command(redisServer(t), args...)
	cmd.Dir = s.Dir
	s.proc = launch(t, cmd, s.ready)
}

// Kill ends the server without a goodbye (SIGKILL), also a hung one.
func (s *Server) Kill() {
	if s.proc == nil {
		return
	}
	s.proc.kill()
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

// Up reports whether the server was started and not killed since.
func (s *Server) Up() bool { return s.proc != nil }

// Hang stops the process (SIGSTOP): it accepts connections and never answers.
func (s *Server) Hang(t testing.TB) { t.Helper(); s.signal(t, syscall.SIGSTOP) }

// Wake resumes a hung server.
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

// Eventually calls ok until it holds, and fails the test when it does not within the time.
func Eventually(t testing.TB, within time.Duration, what string, ok func() bool) {
	t.Helper()
	for limit := time.Now().Add(within); ; time.Sleep(time.Millisecond) {
		late := time.Now().After(limit) // before the look: the last one is after the limit
		if ok() {
			return
		}
		if late {
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}

func tail(s string, lines int) string {
	all := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

func fill(lines ...string) []byte { return fmt.Append(nil, strings.Join(lines, "\n"), "\n") }
