package console_test

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/console"
)

// request is a request as a browser makes it; edit changes it.
func request(p *console.Page, path string, edit ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:7481"+path, http.NoBody)
	for _, e := range edit {
		e(r)
	}
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w
}

func TestPageIsServedUnderItsPolicy(t *testing.T) {
	p := console.New(console.Config{})
	for path, kind := range map[string]string{"/": "text/html", "/console.css": "text/css", "/console.js": "javascript", "/icon.svg": "image/svg+xml"} {
		w := request(p, path)
		if w.Code != http.StatusOK || !strings.Contains(w.Header().Get("Content-Type"), kind) {
			t.Errorf("%s: %d, %v", path, w.Code, w.Header())
		}
		policy := w.Header().Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self';", "style-src 'self';", "frame-ancestors 'none'", "require-trusted-types-for 'script'"} {
			if !strings.Contains(policy, want) {
				t.Errorf("%s: %s is missing in %s", path, want, policy)
			}
		}
		if strings.Contains(policy, "unsafe") || w.Header().Get("X-Content-Type-Options") != "nosniff" || w.Header().Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s: %v", path, w.Header())
		}
	}
	for _, path := range []string{"/page/index.html", "/nosuch", "/api/", "/../console.go"} {
		if w := request(p, path); w.Code == http.StatusOK {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

// What the files must not contain: requests to elsewhere, and ways for text to become markup or code.
func TestPageIsItsOwn(t *testing.T) {
	files, err := filepath.Glob("page/*")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	foreign := regexp.MustCompile(`(?i)(https?:)?//[a-z0-9.-]+\.[a-z]|innerHTML|outerHTML|insertAdjacentHTML|document\.write|srcdoc|\beval\(|new Function|@import|url\(| on[a-z]+="| style="`)
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(b), `xmlns="http://www.w3.org/2000/svg"`, "")
		for _, found := range foreign.FindAllString(text, -1) {
			t.Errorf("%s contains %q", f, found)
		}
	}
}

func TestNamesAndSites(t *testing.T) {
	p := console.New(console.Config{Hosts: []string{"console.example"}, MaxViewers: -1})
	host := func(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }
	for name, want := range map[string]int{"localhost:7481": 200, "10.1.2.3": 200, "[::1]:7481": 200, "Console.Example:443": 200, "evil.example": 421, "127.0.0.1.evil.example": 421, "": 421} {
		if w := request(p, "/", host(name)); w.Code != want {
			t.Errorf("Host %q: %d, want %d", name, w.Code, want)
		}
	}
	if w := request(p, "/healthz", host("evil.example")); w.Code != http.StatusOK {
		t.Errorf("the probe of a load balancer: %d", w.Code)
	}
	for site, want := range map[string]int{"cross-site": 403, "same-site": 403, "same-origin": 503, "": 503} {
		if w := request(p, "/api/live", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", site) }); w.Code != want {
			t.Errorf("Sec-Fetch-Site %q: %d, want %d", site, w.Code, want)
		}
	}
}

func TestToken(t *testing.T) {
	const token = "a-token-that-is-long-enough"
	p := console.New(console.Config{Token: token, Logger: slog.New(slog.DiscardHandler)})
	basic := func(sent string) func(*http.Request) { return func(r *http.Request) { r.SetBasicAuth("anyone", sent) } }
	for name, c := range map[string]struct {
		edit func(*http.Request)
		want int
	}{
		"none":     {func(*http.Request) {}, http.StatusUnauthorized},
		"password": {basic(token), http.StatusOK},
		"bearer":   {func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }, http.StatusOK},
		"wrong":    {basic("wrong"), http.StatusUnauthorized},
	} {
		for _, path := range []string{"/", "/console.js"} {
			w := request(p, path, c.edit)
			if w.Code != c.want || (w.Code == http.StatusUnauthorized) != strings.HasPrefix(w.Header().Get("WWW-Authenticate"), "Basic ") {
				t.Errorf("%s, %s: %d, %v", name, path, w.Code, w.Header())
			}
		}
	}
	if w := request(p, "/api/live"); w.Code != http.StatusUnauthorized {
		t.Errorf("the events without the token: %d", w.Code)
	}
}

// pipes are a listener for connections in memory without a buffer: a client that does not read blocks
// the server.
type pipes struct {
	conns chan net.Conn
	ended chan struct{}
	once  sync.Once
}

func (l *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.ended:
		return nil, net.ErrClosed
	}
}
func (l *pipes) Close() error   { l.once.Do(func() { close(l.ended) }); return nil }
func (l *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// serve serves a page in a bubble until the test ends. view connects a viewer.
func serve(t *testing.T, cfg console.Config) (p *console.Page, view func() net.Conn) {
	l := &pipes{conns: make(chan net.Conn), ended: make(chan struct{})}
	p = console.New(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- p.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return p, func() net.Conn {
		client, server := net.Pipe()
		t.Cleanup(func() { client.Close() })
		l.conns <- server
		_, _ = io.WriteString(client, "GET /api/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
		return client
	}
}

// received collects the data of the events that a viewer has received.
type received struct {
	mu    sync.Mutex
	lines []string
}

func (r *received) read(conn net.Conn) {
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		if data, is := strings.CutPrefix(lines.Text(), "data: "); is {
			r.mu.Lock()
			r.lines = append(r.lines, data)
			r.mu.Unlock()
		}
	}
}

// take returns what was received since the last call.
func (r *received) take() string {
	time.Sleep(time.Second)
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	all := strings.Join(r.lines, "\n")
	r.lines = nil
	return all
}

// A viewer gets everything once, then only what changes; and a Page knows whether it has viewers.
func TestLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, view := serve(t, console.Config{MaxViewers: 2})
		row := console.Row{Election: "e", Leader: "a", Token: 1<<63 + 1, Problem: strings.Repeat("é", 1000), Candidates: make([]console.Candidate, 1000)}
		p.Show(row)
		conn := view()
		if err := p.AwaitViewer(t.Context()); err != nil {
			t.Fatal(err)
		}
		var got received
		go got.read(conn)
		if all := got.take(); strings.Count(all, `"election"`) != 1 || !strings.Contains(all, `"token":"9223372036854775809"`) || len(all) > 5000 {
			t.Errorf("%d bytes: %.300s", len(all), all)
		}
		p.Show(row)
		p.ShowSite(console.Site{Prefix: "x"})
		if all := got.take(); !strings.Contains(all, `"nodes":[]`) || strings.Contains(all, "election") {
			t.Errorf("what has not changed is sent again: %s", all)
		}
		if p.Remove("e"); p.Shows("e") || got.take() != `{"election":"e"}` {
			t.Error("the removal is not sent")
		}
		view()
		time.Sleep(time.Second)
		if w := request(p, "/api/live"); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
			t.Errorf("a third viewer: %d", w.Code)
		}
		conn.Close()
		p.Show(row) // so that the server notices
		time.Sleep(4 * time.Second)
		if !p.Viewed() {
			t.Error("one of two has left")
		}
		time.Sleep(11 * time.Second) // the other one does not read: it is disconnected after 5 s
		if p.Viewed() {
			t.Error("nobody reads any more")
		}
	})
}
