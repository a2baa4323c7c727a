// Package servertest starts real servers for tests: one or several Redis, PostgreSQL, and MariaDB.
// Each server listens on a free port of the loopback interface, has its own directory, and ends
// with the test, however the test ends.
//
//	func TestWorkerOutlivesRedis(t *testing.T) {
//		s := servertest.Redis(t, servertest.AOF...)
//		q, err := elector.Open(s.URL())
//		...
//		s.Kill()
//		s.Restart(t)
//		// now check that the worker leads again
//	}
//
// Start with electortest: its embedded Redis needs no server and runs on virtual time.
// Use this package for what only a real server does: it hangs, loses its data, fails over, or
// refuses a command for a missing right. The server programs must be installed. If one is
// missing, the test is skipped, which is logged; with MANDATE_TEST_REQUIRE_REDIS=1 (_POSTGRES,
// _MARIADB) it fails instead, as it should in CI. MANDATE_TEST_REDIS_SERVER=/path/to/valkey-server
// selects another Redis. On Windows all is skipped, for want of servers.
package servertest

import (
	"cmp"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// AOF has the arguments that make a server keep its data, including the last write, over a restart.
var AOF = []string{"--appendonly", "yes", "--appendfsync", "always"}

// Server is a redis-server process of the test: on a free port of the loopback interface, in
// its own directory, ended with the test. Not safe for concurrent use, except for Addr, URL
// and Do.
type Server struct {
	Port int
	Dir  string

	args []string
	proc *process // nil while the server is down
}

// serverVariable is the environment variable with the absolute path of the server to test
// with: a Valkey, or a Redis other than the installed one. That program must accept the
// command line of redis-server.
const serverVariable = "MANDATE_TEST_REDIS_SERVER"

// redisServer returns the path of the program that every test of this module runs as its
// Redis. If the variable names a program that is missing, the test fails: otherwise it would
// run on another server than the one that was requested.
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

// Version returns the name and the version of the server that the tests run, as the
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

// NeedRedis skips the test, with a log message, if there is no redis-server, or fails it if one
// is required.
func NeedRedis(t testing.TB) { t.Helper(); redisServer(t) }

// Redis starts a server with the given arguments of redis-server, of which a configuration file
// must be the first. Without arguments the server keeps nothing on disk.
func Redis(t testing.TB, args ...string) *Server {
	t.Helper()
	return RedisOn(t, FreePort(t), args...)
}

// RedisOn is Redis on a given port.
func RedisOn(t testing.TB, port int, args ...string) *Server {
	t.Helper()
	NeedRedis(t) // before anything else is created
	s := &Server{Port: port, Dir: t.TempDir(), args: args}
	t.Cleanup(func() {
		if t.Failed() && s.proc != nil {
			t.Logf("the redis-server on %s printed:\n%s", s.Addr(), tail(s.proc.out.String(), 5))
		}
		s.Kill()
	})
	s.Restart(t)
	return s
}

// RedisN starts n servers, as Redis does.
func RedisN(t testing.TB, n int, args ...string) []*Server {
	t.Helper()
	all := make([]*Server, n)
	for i := range all {
		all[i] = Redis(t, args...)
	}
	return all
}

// Addr returns the server's host:port.
func (s *Server) Addr() string { return "127.0.0.1:" + strconv.Itoa(s.Port) }

// URL returns the URL for elector.Open.
func (s *Server) URL() string { return "redis://" + s.Addr() }

// URLs returns those of several servers.
func URLs(servers ...*Server) (urls []string) {
	for _, s := range servers {
		urls = append(urls, s.URL())
	}
	return urls
}

// Restart kills the server if it is up, and starts it again, with the files in its directory.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.Kill()
	port := []string{"--port", strconv.Itoa(s.Port)}
	if slices.Contains(s.args, "--tls-cert-file") {
		port = []string{"--port", "0", "--tls-port", strconv.Itoa(s.Port)}
	}
	ready := "Ready to accept connections"
	if slices.Contains(s.args, "--sentinel") {
		ready = "Sentinel ID is"
	}
	args := append(slices.Clone(s.args), "--bind", "127.0.0.1", "--dir", s.Dir, "--daemonize", "no")
	args = append(args, port...)
	if !slices.Contains(s.args, "--save") { // Redis obeys the last one
		args = append(args, "--save", "")
	}
	cmd := exec.Command(redisServer(t), args...)
	cmd.Dir = s.Dir
	s.proc = launch(t, cmd, ready)
}

// Kill ends the server with SIGKILL, even if it hangs.
func (s *Server) Kill() {
	if s.proc == nil {
		return
	}
	s.proc.kill()
	s.proc = nil
}

// Forget removes all files of a server that is down.
func (s *Server) Forget(t testing.TB) {
	t.Helper()
	Must(t, cmp.Or(os.RemoveAll(s.Dir), os.Mkdir(s.Dir, 0o700)))
}

// Up reports whether the server was started and not killed since.
func (s *Server) Up() bool { return s.proc != nil }

// Hang stops the process (SIGSTOP): it accepts connections and never answers.
func (s *Server) Hang(t testing.TB) { t.Helper(); s.signal(t, stop) }

// Wake resumes a hung server.
func (s *Server) Wake(t testing.TB) { t.Helper(); s.signal(t, resume) }

func (s *Server) signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	Must(t, s.proc.cmd.Process.Signal(sig))
}

// Client returns a client with all rights, as an operator has. It is closed when the test ends.
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

// Do runs one command, as an operator would with redis-cli. The test fails if the command fails.
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

// Must fails the test if err is not nil.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Listen hands each connection to an address of its own to serve, and closes it then. It returns the address.
func Listen(t testing.TB, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	Must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			go func() { serve(c); _ = c.Close() }()
		}
	}()
	return l.Addr().String()
}

// Eventually calls ok until it returns true, and fails the test if that takes longer than within.
func Eventually(t testing.TB, within time.Duration, what string, ok func() bool) {
	t.Helper()
	Poll(t, time.Millisecond, within, what, ok)
}

// Poll is Eventually with another time between two calls.
func Poll(t testing.TB, every, within time.Duration, what string, ok func() bool) {
	t.Helper()
	for limit := time.Now().Add(within); ; time.Sleep(every) {
		late := time.Now().After(limit) // read before ok is called, so that the last call is after the limit
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
