package health

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestHTTPProbe(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/ok":
			w.WriteHeader(http.StatusNoContent)
		case "/bad":
			http.Error(w, "db down\x1b[31m\nsecond line", http.StatusServiceUnavailable)
		case "/login":
			http.Redirect(w, r, "/ok", http.StatusFound)
		case "/endless":
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 4096)); err != nil {
					return
				}
			}
		case "/hang":
			<-r.Context().Done()
		}
	}))
	defer server.Close()
	for path, want := range map[string]string{
		"/ok":         "",
		"/bad":        "/bad: 503 Service Unavailable: db down",
		"/login":      "/login: 302 Found (redirects are not followed)",
		"/endless":    "",
		"/hang?key=s": "/hang: context deadline exceeded",
	} {
		p, err := HTTP(server.URL + path)
		must(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if path == "/hang?key=s" {
			ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
		}
		err = p.Check(ctx)
		cancel()
		if want == "" && err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if want != "" {
			wantMessage(t, err, want)
			if strings.ContainsAny(fmt.Sprint(err), "\x1b\n") || strings.Contains(fmt.Sprint(err), "key=s") {
				t.Errorf("words: %q", err)
			}
		}
	}
}

// What can't be parsed is not quoted when it may hold a password.
func TestBadURLsKeepTheirPassword(t *testing.T) {
	for _, u := range []string{
		"http://user:secret@h:x", "http://user:secret@[::1", "http://user:%zzsecret@h", "http://user:se#secret@h", "http:user:secret@h",
		"user:secret@h", "http:///user:secret@h", "ftp://user:secret@h", "http://user:secret@", "http://user:secret@h:0", "http://user:s ecret@h/\x7f",
	} {
		if _, err := HTTP(u); err == nil || strings.Contains(err.Error(), "ecret") {
			t.Errorf("%q: %v", u, err)
		}
	}
}

func TestTCPProbe(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	p, err := TCP(l.Addr().String())
	must(t, err)
	must(t, p.Check(t.Context()))
	l.Close()
	wantMessage(t, p.Check(t.Context()), "refused")
	_, err = TCP(":5432")
	wantMessage(t, err, "has no host: write localhost:5432")
}
