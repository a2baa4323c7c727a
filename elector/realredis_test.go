package elector_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector"
)

// realServer is a redis-server of the test's own, on a free port of the
// loopback interface, in a directory of its own.
type realServer struct {
	addr string
	port int
	args []string
	cmd  *exec.Cmd
	out  *lockedBuffer
	dir  string
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// needRedis skips loudly where there is no redis-server, and fails where one is
// required.
func needRedis(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("MANDATE_TEST_REQUIRE_REDIS") == "1" {
			t.Fatal("redis-server is required (MANDATE_TEST_REQUIRE_REDIS=1) and not on PATH: install it")
		}
		t.Skip("SKIPPED: no redis-server on PATH: nothing here was tested against a real Redis. Install redis-server (Debian: apt-get install redis-server)")
	}
}

// realServers starts n servers, each with the given extra arguments.
func realServers(t testing.TB, n int, args ...string) []*realServer {
	t.Helper()
	needRedis(t)
	var all []*realServer
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		l.Close()
		s := &realServer{addr: fmt.Sprintf("127.0.0.1:%d", port), port: port, args: args, dir: t.TempDir()}
		t.Cleanup(s.kill)
		s.start(t)
		all = append(all, s)
	}
	return all
}

func (s *realServer) start(t testing.TB) {
	t.Helper()
	args := append([]string{
		"--bind", "127.0.0.1", "--port", fmt.Sprint(s.port), "--dir", s.dir, "--save", "", "--appendonly", "no", "--daemonize", "no",
	}, s.args...)
	s.out = &lockedBuffer{}
	s.cmd = exec.Command("redis-server", args...)
	s.cmd.Stdout, s.cmd.Stderr = s.out, s.out
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for limit := time.Now().Add(10 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		if strings.Contains(s.out.String(), "Ready to accept connections") {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("redis-server did not start: %s", s.out)
		}
	}
}

// kill ends this server, also a stopped one: without saying goodbye.
func (s *realServer) kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

func (s *realServer) signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// client is what an operator would use.
func (s *realServer) client(t testing.TB, change ...func(*redis.Options)) *redis.Client {
	o := &redis.Options{Addr: s.addr}
	for _, f := range change {
		f(o)
	}
	c := redis.NewClient(o)
	t.Cleanup(func() { c.Close() })
	return c
}

func (s *realServer) do(t testing.TB, args ...any) {
	t.Helper()
	if err := s.client(t).Do(context.Background(), args...).Err(); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
}

// realQuorum has connections of its own.
func realQuorum(t testing.TB, servers ...*realServer) *elector.Quorum {
	t.Helper()
	var urls []string
	for _, s := range servers {
		urls = append(urls, "redis://"+s.addr)
	}
	q, err := elector.Open(urls...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { q.Close() })
	return q
}

type redisOptions = redis.Options
