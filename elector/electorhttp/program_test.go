package electorhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electorhttp"
)

// program is a process that answers HTTP beside a replica, on a network in memory.
type program struct {
	away   atomic.Bool // refuses connections
	serves atomic.Int64
	app    atomic.Pointer[http.HandlerFunc]
	head   atomic.Pointer[http.Header]
	l      *pipeNet
	sender *http.Transport // the replica's
}

// beside has the replica's requests answered by a program that answers with its name.
func (f *fleet) beside(r *replica) *program {
	p := &program{l: &pipeNet{conns: make(chan net.Conn), done: make(chan struct{})}}
	server := &http.Server{ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0), ReadHeaderTimeout: time.Minute}
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		p.serves.Add(1)
		p.head.Store(&req.Header)
		if app := p.app.Load(); app != nil {
			(*app)(w, req)
			return
		}
		_, _ = w.Write([]byte("program of " + r.id))
	})
	var all sync.WaitGroup
	all.Go(func() { _ = server.Serve(p.l) })
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		if p.away.Load() {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
		}
		client, conn := net.Pipe()
		select {
		case p.l.conns <- conn:
			return client, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
	p.sender = transport
	f.t.Cleanup(func() { _ = server.Close(); all.Wait(); transport.CloseIdleConnections() })
	r.app = electorhttp.Program(&url.URL{Scheme: "http", User: url.UserPassword("user", "secret"), Host: "127.0.0.1:8000"}, transport).ServeHTTP
	return p
}

// behindForward runs test with the replicas a, which leads and has a program, and b, which follows; their requests
// wait for at most so long.
func behindForward(t *testing.T, hold time.Duration, test func(f *fleet, a *replica, p *program)) {
	bubble(t, func(t *testing.T, s *stage) {
		f := newFleet(t, s)
		a := f.start("a", electorhttp.ForwardConfig{Hold: hold})
		p := f.beside(a)
		until(t, "a leads", 2*lease, a.IsLeader)
		f.start("b", electorhttp.ForwardConfig{Hold: hold})
		test(f, a, p)
	})
}

// does has the program answer so.
func (p *program) does(answer http.HandlerFunc) { p.app.Store(&answer) }

// served fails the test when the program has got another number of requests.
func (p *program) served(t *testing.T, want int64) {
	t.Helper()
	if n := p.serves.Load(); n != want {
		t.Errorf("the program has got %d requests, want %d", n, want)
	}
}

// A program that restarts costs requests the time that it is away, also those that must not be
// sent twice: it has not seen them.
func TestProgramIsAway(t *testing.T) {
	behindForward(t, 4*time.Second, func(f *fleet, _ *replica, p *program) {
		for _, to := range []string{"a", "b"} {
			p.away.Store(true)
			time.AfterFunc(3*time.Second, func() { p.away.Store(false) })
			at := time.Now()
			resp, body, err := f.do(to, http.MethodPost, "/", "hello", "X-Forwarded-For", "192.0.2.7")
			if err != nil || resp.StatusCode != http.StatusOK || body != "program of a" {
				t.Fatalf("%s: %v %+v %q", to, err, resp, body)
			}
			if took := time.Since(at); took < 3*time.Second || took > 3200*time.Millisecond {
				t.Errorf("%s: answered after %v", to, took)
			}
			if head := *p.head.Load(); head.Get("Mandate-Token") == "" || !strings.HasPrefix(head.Get("X-Forwarded-For"), "192.0.2.7") {
				t.Errorf("%s: the program has got %v", to, head)
			}
			if n := len(resp.Header["Mandate-Leader"]); n != 1 {
				t.Errorf("%s: %d leaders in %v", to, n, resp.Header)
			}
		}
		p.away.Store(true)
		resp, body, err := f.do("b", http.MethodPost, "/", "hello")
		if err != nil || resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, "not executed") {
			t.Errorf("%v %+v %q", err, resp, body)
		}
		p.served(t, 2)
	})
}

// A request that the end of the term cut off is sent to the next leader, unless it may have been
// executed and must not be twice.
func TestProgramIsCutOffByTheTerm(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		f := newFleet(t, s)
		a := f.start("a", electorhttp.ForwardConfig{Finish: time.Second})
		began := make(chan struct{}, 5)
		f.beside(a).does(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // only then does a server notice that its client has gone
			began <- struct{}{}
			<-r.Context().Done()
		})
		until(t, "a leads", 2*lease, a.IsLeader)
		b := f.start("b", electorhttp.ForwardConfig{})
		f.beside(b).does(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			_, _ = w.Write(append([]byte("program of b"), body...))
		})
		var get, post, long *http.Response
		var body string
		var all sync.WaitGroup
		all.Go(func() { get, body, _ = f.do("b", http.MethodGet, "/", "") })
		all.Go(func() { post, _, _ = f.do("a", http.MethodPost, "/", "hello") })
		all.Go(func() { long, _, _ = f.do("a", http.MethodPut, "/", strings.Repeat("x", 65<<10)) }) // too long to be kept
		for _, to := range []string{"a", "b"} {
			all.Go(func() {
				if put, body, err := f.do(to, http.MethodPut, "/", " hello"); err != nil || put.StatusCode != http.StatusOK || body != "program of b hello" {
					t.Errorf("a PUT to %s: %v %+v %q", to, err, put, body)
				}
			})
		}
		for range cap(began) {
			<-began
		}
		a.Term().Resign()
		all.Wait()
		if get == nil || get.StatusCode != http.StatusOK || body != "program of b" {
			t.Errorf("%+v %q", get, body)
		}
		if post == nil || post.StatusCode != http.StatusBadGateway {
			t.Errorf("%+v", post)
		}
		if long == nil || long.StatusCode != http.StatusBadGateway {
			t.Errorf("%+v", long)
		}
	})
}

// A request at which a program breaks off may be why it does: it is not sent again, whatever its
// method. Neither its URL's password nor a second answer reaches the client.
func TestProgramBreaksOff(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		f := newFleet(t, s)
		a := f.start("a", electorhttp.ForwardConfig{})
		p := f.beside(a)
		until(t, "a leads", 2*lease, a.IsLeader)
		p.does(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		resp, body, err := f.do("a", http.MethodGet, "/", "")
		if err != nil || resp.StatusCode != http.StatusBadGateway || !strings.Contains(body, "not known whether") || strings.Contains(body, "secret") {
			t.Errorf("%v %+v %q", err, resp, body)
		}
		p.served(t, 1)
	})
}

// A request at which the program dies is not held for the program's restart, nor given to the next leader's, also
// where the transport has tried to send it again by itself, since the connection was used before.
func TestProgramDiesOfARequest(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		f := newFleet(t, s)
		a := f.start("a", electorhttp.ForwardConfig{Hold: 4 * time.Second})
		p := f.beside(a)
		p.sender.DisableKeepAlives = false
		until(t, "a leads", 2*lease, a.IsLeader)
		if resp, _, err := f.do("a", http.MethodGet, "/", ""); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%v %+v", err, resp)
		}
		p.does(func(http.ResponseWriter, *http.Request) {
			p.away.Store(true)
			time.AfterFunc(2*time.Second, func() { p.away.Store(false) })
			panic(http.ErrAbortHandler)
		})
		resp, body, err := f.do("a", http.MethodGet, "/", "")
		if err != nil || resp.StatusCode != http.StatusBadGateway || !strings.Contains(body, "not known whether") {
			t.Errorf("%v %+v %q", err, resp, body)
		}
		p.served(t, 2)
	})
}

// An answer that breaks off amid its body breaks off for the client too, through a follower as well, which must not
// take it for the answer of a leader that died.
func TestProgramBreaksOffAmidItsAnswer(t *testing.T) {
	behindForward(t, 4*time.Second, func(f *fleet, _ *replica, p *program) {
		p.does(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("abc"))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		})
		for i, to := range []string{"a", "b"} {
			resp, body, err := f.do(to, http.MethodGet, "/", "")
			if err == nil {
				t.Errorf("%s: %v %+v %q", to, err, resp, body)
			}
			p.served(t, int64(i+1))
		}
	})
}

// The token reaches the program, and its own words about who leads reach nobody: a client cannot have the one removed,
// nor the program have a follower take its answer for a refusal, nor an informational answer hide who leads.
func TestProgramHeaders(t *testing.T) {
	behindForward(t, 4*time.Second, func(f *fleet, a *replica, p *program) {
		p.does(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // a pipe that is closed before that fails the request at times
			for _, name := range []string{"Mandate-Token", "Mandate-Leader", "Mandate-Not-Leader"} {
				w.Header().Set(name, "7")
			}
			w.WriteHeader(http.StatusEarlyHints)
		})
		want := fmt.Sprint(a.Term().Token())
		for _, to := range []string{"a", "b"} {
			resp, body, err := f.do(to, http.MethodPost, "/", "hello", "Connection", "Mandate-Token")
			if err != nil || resp.StatusCode != http.StatusOK {
				t.Fatalf("%s: %v %+v %q", to, err, resp, body)
			}
			if got := (*p.head.Load())["Mandate-Token"]; len(got) != 1 || got[0] != want {
				t.Errorf("%s: the program has got the tokens %q", to, got)
			}
			if token, leader := resp.Header["Mandate-Token"], resp.Header["Mandate-Leader"]; len(token) != 1 || token[0] != want || len(leader) != 1 || leader[0] != "a" {
				t.Errorf("%s: tokens %q, leaders %q", to, token, leader)
			}
		}
		p.served(t, 2)
	})
}

// A program's address that leads back to the replicas is noticed at the first request that returns.
func TestProgramIsTheReplicaItself(t *testing.T) {
	for _, back := range []string{"a", "b"} {
		bubble(t, func(t *testing.T, s *stage) {
			f := newFleet(t, s)
			a := f.start("a", electorhttp.ForwardConfig{})
			transport := &http.Transport{DialContext: f.dial, DisableKeepAlives: true}
			t.Cleanup(transport.CloseIdleConnections)
			passed := 0
			program := electorhttp.Program(&url.URL{Scheme: "http", Host: back}, transport)
			a.app = func(w http.ResponseWriter, r *http.Request) {
				if passed++; passed > 1 {
					panic(http.ErrAbortHandler)
				}
				program.ServeHTTP(w, r)
			}
			until(t, "a leads", 2*lease, a.IsLeader)
			f.start("b", electorhttp.ForwardConfig{})
			resp, body, err := f.do("a", http.MethodPost, "/", "hello", "Connection", "Mandate-Passed-By")
			if err != nil || resp.StatusCode != http.StatusLoopDetected || !strings.Contains(body, "not executed") || passed != 1 {
				t.Errorf("%s: %v %+v %q, passed %d times", back, err, resp, body, passed)
			}
		})
	}
}

// A request that is lost again and again is not sent every 50 ms, and its client is not told that it was not executed.
func TestForwardLosesEveryAnswer(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		f := newFleet(t, s)
		a := f.start("a", electorhttp.ForwardConfig{})
		var served atomic.Int64
		a.app = func(http.ResponseWriter, *http.Request) { served.Add(1); panic(http.ErrAbortHandler) }
		until(t, "a leads", 2*lease, a.IsLeader)
		f.start("b", electorhttp.ForwardConfig{Hold: 6 * time.Second})
		resp, body, err := f.do("b", http.MethodGet, "/", "")
		if err != nil || resp.StatusCode != http.StatusBadGateway || !strings.Contains(body, "not known whether") {
			t.Errorf("%v %+v %q", err, resp, body)
		}
		if n := served.Load(); n < 2 || n > 9 {
			t.Errorf("the app has got %d requests", n)
		}
	})
}

// Where all replicas advertise one address, as that of a load balancer or of each one's loopback interface, a request is
// not sent round: the answer names the mistake.
func TestForwardToOnesOwnAddress(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		f := newFleet(t, s)
		same := func(c *elector.Config) { c.Advertise = "http://b" }
		a := f.start("a", electorhttp.ForwardConfig{}, same)
		until(t, "a leads", 2*lease, a.IsLeader)
		f.start("b", electorhttp.ForwardConfig{Hold: time.Second}, same)
		resp, body, err := f.do("b", http.MethodPost, "/", "hello")
		if err != nil || resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, "a advertises http://b, as this replica does") {
			t.Errorf("%v %+v %q", err, resp, body)
		}
	})
}
