package electorhttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/electorhttp"
)

// interrupted is a body whose first read fails behind a part of it.
type interrupted struct {
	io.ReadCloser
	failed bool
}

func (i *interrupted) Read(b []byte) (int, error) {
	if i.failed {
		return i.ReadCloser.Read(b)
	}
	i.failed = true
	n, _ := i.ReadCloser.Read(b[:3])
	return n, errors.New("interrupted")
}

// Regression: a body that could not be read was read again, and the rest of it was sent as the whole.
func TestForwardInterruptedBody(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		f := newFleet(t, s)
		a := f.start("a", electorhttp.ForwardConfig{})
		until(t, "a leads", 2*lease, a.IsLeader)
		b := f.start("b", electorhttp.ForwardConfig{})
		time.Sleep(lease)
		forward := b.server.Handler
		b.server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Body = &interrupted{ReadCloser: r.Body}
			forward.ServeHTTP(w, r)
		})
		began := time.Now()
		resp, body, err := f.do("b", http.MethodPost, "/", "0123456789")
		if err != nil || resp.StatusCode != http.StatusBadRequest || time.Since(began) != 0 || f.executed["/"] != 0 {
			t.Errorf("%v %+v %q after %v, executed: %v", err, resp, body, time.Since(began), f.executed)
		}
	})
}

// untraced carries requests, and does not report what it does.
type untraced struct{ http.RoundTripper }

func (u untraced) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer context.AfterFunc(r.Context(), cancel)()
	return u.RoundTripper.RoundTrip(r.WithContext(ctx))
}

// Regression: with a transport that does not report what it has sent, a request that was lost with its
// connection was sent again, whatever its method; and an answer that did not name the request panicked.
func TestForwardByAnUntracedTransport(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		f := newFleet(t, s)
		a := f.start("a", electorhttp.ForwardConfig{})
		until(t, "a leads", 2*lease, a.IsLeader)
		transport := &http.Transport{DialContext: f.dial, ExpectContinueTimeout: time.Second}
		t.Cleanup(transport.CloseIdleConnections)
		f.start("b", electorhttp.ForwardConfig{Transport: untraced{transport}})
		time.Sleep(lease)
		executed := 0
		if resp, body, err := f.do("b", http.MethodPost, "/", "body"); err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%v %+v %q", err, resp, body)
		}
		a.app = func(http.ResponseWriter, *http.Request) {
			executed++
			panic(http.ErrAbortHandler) // ends the connection
		}
		resp, body, err := f.do("b", http.MethodPost, "/", "body")
		if err != nil || resp.StatusCode != http.StatusBadGateway || executed != 1 {
			t.Errorf("%v %+v %q, executed %d times", err, resp, body, executed)
		}
	})
}

// A long body is sent as it comes, and once; a leader that refuses has not read it.
func TestForwardLongBodies(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		f := newFleet(t, s)
		a := f.start("a", electorhttp.ForwardConfig{})
		until(t, "a leads", 2*lease, a.IsLeader)
		b := f.start("b", electorhttp.ForwardConfig{MaxBody: 10})
		time.Sleep(lease)
		long := strings.Repeat("x", 1000)
		if resp, body, err := f.do("b", http.MethodPut, "/long", long); err != nil || resp.StatusCode != http.StatusOK || body != "a /long "+long {
			t.Fatalf("%v %+v %s", err, resp, body)
		}
		// a has ended its term, but b has not heard of it: a refuses, and b leads then.
		a.app = func(_ http.ResponseWriter, r *http.Request) { time.Sleep(200 * time.Millisecond) }
		go func() { _, _, _ = f.do("a", http.MethodPost, "/work", "") }()
		time.Sleep(time.Millisecond)
		term := a.Term()
		term.Resign()
		<-term.Done() // until then a serves what it gets
		if resp, body, err := f.do("b", http.MethodPost, "/later", long); err != nil || resp.StatusCode != http.StatusOK || body != "b /later "+long {
			t.Fatalf("%v %+v %s", err, resp, body)
		}
		b.app = func(_ http.ResponseWriter, r *http.Request) { // dies while it reads
			_, _ = r.Body.Read(make([]byte, 1))
			panic(http.ErrAbortHandler)
		}
		f.start("c", electorhttp.ForwardConfig{MaxBody: 10})
		time.Sleep(lease)
		if resp, body, err := f.do("c", http.MethodPut, "/broken", long); err != nil || resp.StatusCode != http.StatusBadGateway {
			t.Errorf("%v %+v %s", err, resp, body)
		}
	})
}
