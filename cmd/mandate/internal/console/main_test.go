package console_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/console"
	"github.com/mandate-dev/mandate/cmd/mandate/internal/console/consoletest"
	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electortest"
)

func TestMain(m *testing.M) {
	logging.Disable()
	goleak.VerifyTestMain(m)
}

const token = "a-token-that-is-long-enough"

func newConsole(t *testing.T, cfg console.Config) *console.Console {
	t.Helper()
	cfg.Logger = slog.New(slog.DiscardHandler)
	c, err := console.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// request is a request as a browser on this page makes it; edit changes it.
func request(c http.Handler, method, path, body string, edit ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://127.0.0.1:7481"+path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for _, e := range edit {
		e(r)
	}
	w := httptest.NewRecorder()
	c.ServeHTTP(w, r)
	return w
}

func bearer(token string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
}

// server is a console in a bubble, on a Redis in memory, served on connections in
// memory.
type server struct {
	t     *testing.T
	redis *electortest.Redis

	console *console.Console

	conns chan net.Conn
	ended chan struct{}
	once  sync.Once
}

func (s *server) Accept() (net.Conn, error) {
	select {
	case c := <-s.conns:
		return c, nil
	case <-s.ended:
		return nil, net.ErrClosed
	}
}
func (s *server) Close() error   { s.once.Do(func() { close(s.ended) }); return nil }
func (s *server) Addr() net.Addr { return &net.TCPAddr{} }

func bubble(t *testing.T, cfg console.Config, f func(t *testing.T, s *server, c *console.Console)) {
	t.Helper()
	electortest.Test(t, func(t *testing.T, r *electortest.Redis) {
		cfg.Quorum = r.Quorum("console")
		s := serve(t, r, cfg)
		f(t, s, s.console)
	})
}

// serve starts a console that ends with the test.
func serve(t *testing.T, r *electortest.Redis, cfg console.Config) *server {
	t.Helper()
	s := &server{t: t, redis: r, console: newConsole(t, cfg), conns: make(chan net.Conn), ended: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.console.Serve(ctx, s) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return s
}

// candidate campaigns until the test ends.
func (s *server) candidate(election, id string) *elector.Elector {
	s.t.Helper()
	return consoletest.Candidate(s.t, s.redis, election, id)
}

// dial sends a request, and hands over the connection.
func (s *server) dial(request string) net.Conn {
	client, server := net.Pipe() // without a buffer: who does not read holds the writer
	s.conns <- server
	go func() { _, _ = io.WriteString(client, request) }()
	s.t.Cleanup(func() { client.Close() })
	return client
}

const getLive = "GET /api/live%s HTTP/1.1\r\nHost: localhost\r\n\r\n"

// view is what one viewer received last: the table, and the details of what it has opened.
type view struct {
	mu       sync.Mutex
	parts    map[string]map[string]any // by "kind election"
	received int
	conns    []net.Conn
}

// view looks at the page; elections are those that are open there. Default: e and f.
func (s *server) view(open ...string) *view {
	if open == nil {
		open = []string{"e", "f"}
	}
	v := &view{parts: map[string]map[string]any{}}
	for _, query := range []string{"", "?election=" + strings.Join(open, "&election=")} {
		conn := s.dial(fmt.Sprintf(getLive, query))
		v.conns = append(v.conns, conn)
		go v.read(conn)
	}
	return v
}

func (v *view) close() {
	for _, conn := range v.conns {
		_ = conn.Close()
	}
}

func (v *view) read(conn net.Conn) {
	kind := ""
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if k, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			kind = k
		}
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var part map[string]any
		if err := json.Unmarshal([]byte(data), &part); err != nil {
			kind = "unreadable: " + data
		}
		name, _ := part["election"].(string)
		v.mu.Lock()
		v.received++
		v.parts[strings.TrimSpace(kind+" "+name)] = part
		v.mu.Unlock()
	}
}

// get is the value at a path of a part: get("status e", "leader", "id").
func (v *view) get(part string, path ...string) any {
	v.mu.Lock()
	defer v.mu.Unlock()
	var at any = v.parts[part]
	for _, p := range path {
		m, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = m[p]
	}
	return at
}

// list is get for an array.
func (v *view) list(part, name string) []map[string]any {
	var all []map[string]any
	items, _ := v.get(part, name).([]any)
	for _, i := range items {
		m, _ := i.(map[string]any)
		all = append(all, m)
	}
	return all
}
