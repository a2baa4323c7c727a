package electorhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electorhttp"
	"github.com/mandate-dev/mandate/health"
)

// fleet is replicas of a service behind Forward, on a network in memory.
type fleet struct {
	t *testing.T
	s *stage

	mu       sync.Mutex
	replicas map[string]*replica
	executed map[string]int // by request
	running  map[uint64]int // requests that the app serves, by token
	newest   uint64         // token
}

type replica struct {
	*elector.Elector
	id     string
	stop   func() // ends Run, and waits for it
	server *http.Server
	l      *pipeNet
	dead   chan struct{}
	app    http.HandlerFunc // nil: the fleet's
}

func newFleet(t *testing.T, s *stage) *fleet {
	f := &fleet{t: t, s: s, replicas: map[string]*replica{}, executed: map[string]int{}, running: map[uint64]int{}}
	return f
}

func (f *fleet) start(id string, cfg electorhttp.ForwardConfig, change ...func(*elector.Config)) *replica {
	f.t.Helper()
	ec := elector.Config{
		Election: "e", ID: id, Advertise: "http://" + id, Lease: lease, Logger: slog.New(slog.DiscardHandler),
	}
	for _, c := range change {
		c(&ec)
	}
	e, err := elector.New(f.s.redis.Quorum(id), ec)
	if err != nil {
		f.t.Fatal(err)
	}
	r := &replica{Elector: e, id: id, l: &pipeNet{conns: make(chan net.Conn), done: make(chan struct{})}, dead: make(chan struct{})}
	h, err := electorhttp.New(e, electorhttp.Config{})
	if err != nil {
		f.t.Fatal(err)
	}
	if cfg.Transport == nil {
		transport := &http.Transport{DialContext: f.dial, MaxIdleConnsPerHost: 100, IdleConnTimeout: time.Minute, ExpectContinueTimeout: time.Second}
		f.t.Cleanup(transport.CloseIdleConnections)
		cfg.Transport = transport
	}
	gate := &elector.Gate{}
	forward, err := h.Forward(gate, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if r.app != nil {
			r.app(w, req)
			return
		}
		f.serve(w, req, e)
	}), cfg)
	if err != nil {
		f.t.Fatal(err)
	}
	r.server = &http.Server{Handler: forward, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0), ReadHeaderTimeout: time.Minute}
	f.mu.Lock()
	f.replicas[id] = r
	f.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	var run, all sync.WaitGroup
	run.Go(func() { _ = e.Run(ctx, gate.Work) })
	follow, unfollow := context.WithCancel(context.Background())
	all.Go(func() { _ = h.Run(follow) })
	all.Go(func() { _ = r.server.Serve(r.l) })
	r.stop = func() { cancel(); run.Wait() }
	f.t.Cleanup(func() {
		r.stop()
		unfollow()
		_ = r.server.Close()
		all.Wait()
	})
	return r
}

// dial connects to a replica by its name.
func (f *fleet) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	host, _, _ := net.SplitHostPort(addr)
	f.mu.Lock()
	r := f.replicas[host]
	f.mu.Unlock()
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	if r == nil {
		return nil, refused
	}
	client, server := net.Pipe()
	select {
	case <-r.dead:
		return nil, refused
	default:
	}
	select {
	case r.l.conns <- server:
		return client, nil
	case <-r.l.done:
		return nil, refused
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// kill is a kill -9: the replica's connections to Redis and to the others end.
func (f *fleet) kill(r *replica) {
	f.s.redis.CutOff(r.id)
	close(r.dead)
	_ = r.server.Close()
}

// serve is the app. It fails the test when another replica's app serves under another token.
func (f *fleet) serve(w http.ResponseWriter, r *http.Request, e *elector.Elector) {
	token := e.Term().Token()
	if got := r.Header.Get("Mandate-Token"); token != 0 && got != fmt.Sprint(token) {
		f.t.Errorf("the app has the token %s, its term has %d", got, token)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	f.mu.Lock()
	f.executed[r.URL.Path]++
	f.running[token]++
	f.newest = max(f.newest, token)
	if token < f.newest || len(f.running) > 1 {
		f.t.Errorf("served under the token %d while others are: %v", token, f.running)
	}
	f.mu.Unlock()
	time.Sleep(time.Duration(rand.IntN(5)) * time.Millisecond)
	f.mu.Lock()
	if f.running[token]--; f.running[token] == 0 {
		delete(f.running, token)
	}
	f.mu.Unlock()
	fmt.Fprintf(w, "%s %s %s", e.ID(), r.URL.Path, body)
}

func (f *fleet) do(to, method, path, body string, header ...string) (*http.Response, string, error) {
	transport := &http.Transport{DialContext: f.dial, DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, "http://"+to+path, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := transport.RoundTrip(r)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp, string(b), err
}

func (f *fleet) leader() *replica {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(f.replicas)) {
		if f.replicas[id].IsLeader() {
			return f.replicas[id]
		}
	}
	return nil
}

// Each replica takes requests, and the leader's app answers them, with the term's token.
func TestForward(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		f := newFleet(t, s)
		a := f.start("a", electorhttp.ForwardConfig{})
		until(t, "a leads", 2*lease, a.IsLeader)
		f.start("b", electorhttp.ForwardConfig{})
		for _, to := range []string{"a", "b"} {
			resp, body, err := f.do(to, http.MethodPost, "/"+to, "hello")
			if err != nil || resp.StatusCode != http.StatusOK || body != "a /"+to+" hello" {
				t.Fatalf("%v %+v %q", err, resp, body)
			}
			if resp.Header.Get("Mandate-Leader") != "a" || resp.Header.Get("Mandate-Token") != fmt.Sprint(a.Term().Token()) {
				t.Errorf("%v", resp.Header)
			}
		}
		var got http.Header
		var host string
		a.app = func(_ http.ResponseWriter, r *http.Request) { got, host = r.Header, r.Host }
		if _, _, err := f.do("b", http.MethodGet, "/", "", "X-Forwarded-For", "192.0.2.7", "X-Forwarded-Proto", "https",
			"Mandate-Token", "99", "Connection", "X-Hop", "X-Hop", "1", "X-End", "2"); err != nil {
			t.Fatal(err)
		}
		if got.Get("Mandate-Token") != fmt.Sprint(a.Term().Token()) || got.Get("Mandate-Forwarded") != "" || host != "b" ||
			!strings.HasPrefix(got.Get("X-Forwarded-For"), "192.0.2.7, ") && got.Get("X-Forwarded-For") != "192.0.2.7" ||
			got.Get("X-Forwarded-Proto") != "https" || got.Get("X-Hop") != "" || got.Get("X-End") != "2" {
			t.Errorf("the app has got %v, host %q", got, host)
		}
	})
}

// During planned hand-overs no request fails, whatever its method, and each is executed once.
func TestForwardDuringHandovers(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		f := newFleet(t, s)
		ids := []string{"a", "b", "c"}
		for _, id := range ids {
			f.start(id, electorhttp.ForwardConfig{}, func(c *elector.Config) { c.Cooldown = -1 })
		}
		until(t, "one leads", 2*lease, func() bool { return f.leader() != nil })
		time.Sleep(lease)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		var clients sync.WaitGroup
		var mu sync.Mutex
		sent := map[string]bool{}
		var slowest time.Duration
		for c := range 5 {
			clients.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					path := fmt.Sprintf("/%d/%d", c, n)
					began := time.Now()
					resp, body, err := f.do(ids[rand.IntN(len(ids))], http.MethodPost, path, "x")
					if err != nil || resp.StatusCode != http.StatusOK {
						t.Errorf("%s: %v %+v %s", path, err, resp, body)
						return
					}
					mu.Lock()
					sent[path] = true
					slowest = max(slowest, time.Since(began))
					mu.Unlock()
					time.Sleep(3 * time.Millisecond)
				}
			})
		}
		for i := range 20 {
			was := f.leader()
			if was == nil {
				t.Fatal("no leader")
			}
			token := was.Term().Token()
			if i%2 == 0 {
				was.Term().Resign()
			} else if _, err := was.Election().Transfer(context.Background(), ids[(slices.Index(ids, was.id)+1)%len(ids)]); err != nil {
				t.Fatal(err)
			}
			until(t, "the next leads", lease, func() bool { l := f.leader(); return l != nil && l.Term().Token() > token })
			time.Sleep(lease / 20)
		}
		cancel()
		clients.Wait()
		for path := range sent {
			if f.executed[path] != 1 {
				t.Errorf("%s was executed %d times", path, f.executed[path])
			}
		}
		if len(sent) < 1000 || slowest > 200*time.Millisecond {
			t.Errorf("%d requests, the slowest took %v", len(sent), slowest)
		}
	})
}

// A leader that dies costs the requests that it had, and could not be sent twice.
func TestForwardWhenTheLeaderDies(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		f := newFleet(t, s)
		a := f.start("a", electorhttp.ForwardConfig{})
		until(t, "a leads", 2*lease, a.IsLeader)
		f.start("b", electorhttp.ForwardConfig{})
		f.start("c", electorhttp.ForwardConfig{})
		time.Sleep(lease)
		a.app = func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() } // it has not answered when it dies
		type result struct {
			code int
			body string
			err  error
		}
		send := func(method, path string, header ...string) <-chan result {
			c := make(chan result, 1)
			go func() {
				resp, body, err := f.do("b", method, path, "x", header...)
				if err != nil {
					c <- result{err: err}
					return
				}
				c <- result{resp.StatusCode, body, nil}
			}()
			return c
		}
		get, put, post := send(http.MethodGet, "/get"), send(http.MethodPut, "/put"), send(http.MethodPost, "/post")
		keyed := send(http.MethodPost, "/keyed", "Idempotency-Key", "k")
		time.Sleep(time.Second)
		f.kill(a)
		later := send(http.MethodPost, "/later")
		for name, c := range map[string]<-chan result{"get": get, "put": put, "keyed": keyed, "later": later} {
			if r := <-c; r.err != nil || r.code != http.StatusOK || !strings.HasSuffix(r.body, " /"+name+" x") {
				t.Errorf("%s: %+v", name, r)
			}
		}
		if r := <-post; r.code != http.StatusBadGateway || !strings.Contains(r.body, "not known whether") {
			t.Errorf("post: %+v", r)
		}
		if f.executed["/post"] != 0 {
			t.Error("a request that may have been executed was sent again")
		}
	})
}

// A leader that does not answer is given up a second after another one leads.
func TestForwardToALeaderThatHangs(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		f := newFleet(t, s)
		a := f.start("a", electorhttp.ForwardConfig{})
		until(t, "a leads", 2*lease, a.IsLeader)
		f.start("b", electorhttp.ForwardConfig{})
		c := f.start("c", electorhttp.ForwardConfig{})
		time.Sleep(lease)
		release := make(chan struct{})
		defer close(release)
		a.app = func(http.ResponseWriter, *http.Request) { <-release }
		done := make(chan string, 1)
		go func() {
			_, body, err := f.do("b", http.MethodGet, "/get", "")
			done <- fmt.Sprint(body, err)
		}()
		time.Sleep(time.Second)
		f.s.redis.CutOff(a.id) // its app hangs: the lock lapses
		until(t, "another leads", 2*lease, func() bool { return c.IsLeader() || f.replicas["b"].IsLeader() })
		began := time.Now()
		if got := <-done; !strings.Contains(got, "/get") || time.Since(began) > 1500*time.Millisecond {
			t.Errorf("%q after %v", got, time.Since(began))
		}
	})
}

// While no candidate leads requests wait, so many and for so long as they may.
func TestForwardHolds(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		f := newFleet(t, s)
		a := f.start("a", electorhttp.ForwardConfig{Hold: 5 * time.Second, MaxHeld: 1})
		until(t, "a leads", 2*lease, a.IsLeader)
		if err := a.Election().Pause(context.Background(), time.Hour, "test"); err != nil {
			t.Fatal(err)
		}
		a.Term().Resign()
		time.Sleep(time.Second)
		began := time.Now()
		first := make(chan *http.Response, 1)
		go func() {
			resp, _, _ := f.do("a", http.MethodPost, "/first", "x")
			first <- resp
		}()
		time.Sleep(time.Second)
		resp, body, err := f.do("a", http.MethodGet, "/second", "")
		if err != nil || resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, "1 requests wait already") || time.Since(began) > 1100*time.Millisecond {
			t.Errorf("%v %+v %s after %v", err, resp, body, time.Since(began))
		}
		if resp := <-first; resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" || time.Since(began).Round(time.Second) != 5*time.Second {
			t.Errorf("%+v after %v", resp, time.Since(began))
		}
		go func() {
			resp, _, _ := f.do("a", http.MethodPost, "/third", "x")
			first <- resp
		}()
		time.Sleep(time.Second)
		if err := a.Election().Resume(context.Background()); err != nil {
			t.Fatal(err)
		}
		if resp := <-first; resp.StatusCode != http.StatusOK {
			t.Errorf("%+v", resp)
		}
		if f.executed["/first"] != 0 || f.executed["/third"] != 1 {
			t.Errorf("%v", f.executed)
		}
	})
}

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
		a.Term().Resign()
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

// A request is forwarded once: also where the leader advertises another replica, or a client
// says that it was forwarded.
func TestForwardOnce(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		f := newFleet(t, s)
		cfg := electorhttp.ForwardConfig{Hold: 2 * time.Second}
		a := f.start("a", cfg, func(c *elector.Config) { c.Advertise = "http://c" })
		until(t, "a leads", 2*lease, a.IsLeader)
		f.start("b", cfg)
		f.start("c", cfg)
		time.Sleep(lease)
		for _, to := range []string{"b", "c"} {
			began := time.Now()
			resp, body, err := f.do(to, http.MethodPost, "/", "x")
			if err != nil || resp.StatusCode != http.StatusServiceUnavailable || time.Since(began) > 3*time.Second {
				t.Errorf("%s: %v %+v %s after %v", to, err, resp, body, time.Since(began))
			}
		}
		if resp, body, err := f.do("b", http.MethodPost, "/", "x", "Mandate-Forwarded", "me"); err != nil || resp.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%v %+v %s", err, resp, body)
		}
		for _, c := range []struct{ address, want string }{
			{"", "the leader a advertises no address"},
			{"ftp://a", `the leader a advertises \"ftp://a\", which is no URL`},
			{"http://nobody", "the leader a can't be reached at http://nobody"},
		} {
			if err := a.SetAdvertise(c.address); err != nil {
				t.Fatal(err)
			}
			time.Sleep(lease)
			if resp, body, err := f.do("b", http.MethodPost, "/", "x"); err != nil || resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, c.want) {
				t.Errorf("%v %+v %s", err, resp, body)
			}
		}
		if len(f.executed) > 0 {
			t.Errorf("%v", f.executed)
		}
	})
}

// What is under way may finish after a planned end; after any other its context ends at once.
func TestForwardFinishes(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		f := newFleet(t, s)
		a := f.start("a", electorhttp.ForwardConfig{Finish: 2 * time.Second})
		until(t, "a leads", 2*lease, a.IsLeader)
		began := make(chan struct{})
		var took time.Duration
		a.app = func(_ http.ResponseWriter, r *http.Request) {
			close(began)
			at := time.Now()
			<-r.Context().Done()
			took = time.Since(at)
			var ended *elector.Ended
			if !errors.As(context.Cause(r.Context()), &ended) {
				t.Errorf("%v", context.Cause(r.Context()))
			}
		}
		over := make(chan struct{})
		go func() { defer close(over); _, _, _ = f.do("a", http.MethodGet, "/", "") }()
		<-began
		a.Term().Resign()
		<-over
		if took != 2*time.Second {
			t.Errorf("its context ended %v after a planned end", took)
		}
		until(t, "a leads", 2*lease, a.IsLeader)
		began, over = make(chan struct{}), make(chan struct{})
		go func() { defer close(over); _, _, _ = f.do("a", http.MethodGet, "/", "") }()
		<-began
		at := time.Now()
		term := a.Term()
		lost := make(chan time.Duration, 1)
		go func() { <-term.Done(); lost <- time.Since(at) }()
		f.s.redis.TakeLease(a.Elector)
		<-over
		if lost := <-lost; took > lost {
			t.Errorf("its context ended after %v, when the lease was lost after %v", took, lost)
		}
	})
}

// Regression: what was under way at a planned end had Finish, also when the lease was not kept meanwhile, and
// went on while another candidate led.
func TestForwardFinishesWithTheLease(t *testing.T) {
	for name, finish := range map[string]time.Duration{"default": 0, "long": 6 * time.Second} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *stage) {
				short := func(c *elector.Config) { c.StopMargin = 500 * time.Millisecond }
				f := newFleet(t, s)
				a := f.start("a", electorhttp.ForwardConfig{Finish: finish}, short)
				until(t, "a leads", 2*lease, a.IsLeader)
				b := f.start("b", electorhttp.ForwardConfig{}, short)
				time.Sleep(lease)
				began, over := make(chan struct{}), make(chan struct{})
				a.app = func(_ http.ResponseWriter, r *http.Request) {
					close(began)
					<-r.Context().Done()
					if b.IsLeader() {
						t.Errorf("the context of a request still lives, and b leads since %v", time.Since(b.Term().Since()))
					}
				}
				go func() { defer close(over); _, _, _ = f.do("a", http.MethodGet, "/", "") }()
				<-began
				s.redis.CutOff("a")
				until(t, "the lease is nearly over", lease, func() bool { return a.Term().Left() < 200*time.Millisecond })
				a.Term().Resign()
				<-over
			})
		})
	}
}

// A leader that is not healthy finishes nothing.
func TestForwardEndsWithTheProbe(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		f := newFleet(t, s)
		var broken atomic.Bool
		a := f.start("a", electorhttp.ForwardConfig{Finish: 2 * time.Second}, func(c *elector.Config) {
			c.Probe = health.Func(func(context.Context) error {
				if broken.Load() {
					return errors.New("broken")
				}
				return nil
			})
		})
		until(t, "a leads", 2*lease, a.IsLeader)
		began := make(chan struct{})
		var ended time.Time
		a.app = func(_ http.ResponseWriter, r *http.Request) {
			close(began)
			<-r.Context().Done()
			ended = time.Now()
		}
		over := make(chan struct{})
		go func() { defer close(over); _, _, _ = f.do("a", http.MethodGet, "/", "") }()
		<-began
		term := a.Term()
		broken.Store(true)
		<-term.Done()
		at := time.Now()
		<-over
		if ended.Sub(at) != 0 {
			t.Errorf("its context ended %v after the term of a leader that is not healthy", ended.Sub(at))
		}
	})
}

// Nothing finishes either when the lock is lost meanwhile.
func TestForwardFinishesWithTheLock(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		f := newFleet(t, s)
		a := f.start("a", electorhttp.ForwardConfig{Finish: 9 * time.Second})
		until(t, "a leads", 2*lease, a.IsLeader)
		began := make(chan struct{})
		var took time.Duration
		a.app = func(_ http.ResponseWriter, r *http.Request) {
			close(began)
			at := time.Now()
			<-r.Context().Done()
			took = time.Since(at)
		}
		over := make(chan struct{})
		go func() { defer close(over); _, _, _ = f.do("a", http.MethodGet, "/", "") }()
		<-began
		a.Term().Resign()
		if err := s.redis.Client("ops").Del(t.Context(), "mandate:{e}:lock").Err(); err != nil {
			t.Fatal(err)
		}
		<-over
		if took > lease/4+lease/16 { // the next renewal, and the next look
			t.Errorf("its context ended %v after the lock was lost", took)
		}
	})
}

// An answer is passed on as it comes, and ends with the term that it is served under.
func TestForwardStreams(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		f := newFleet(t, s)
		a := f.start("a", electorhttp.ForwardConfig{Finish: -1})
		until(t, "a leads", 2*lease, a.IsLeader)
		f.start("b", electorhttp.ForwardConfig{})
		time.Sleep(lease)
		a.app = func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for r.Context().Err() == nil {
				_, _ = io.WriteString(w, "data: tick\n\n")
				_ = http.NewResponseController(w).Flush()
				select {
				case <-time.After(time.Second):
				case <-r.Context().Done():
				}
			}
		}
		time.AfterFunc(4500*time.Millisecond, a.Term().Resign)
		began := time.Now()
		resp, body, err := f.do("b", http.MethodGet, "/", "")
		if err != nil || resp.StatusCode != http.StatusOK || strings.Count(body, "tick") != 5 || time.Since(began) != 4500*time.Millisecond {
			t.Errorf("%v %+v %q after %v", err, resp, body, time.Since(began))
		}
	})
}

func TestForwardBadInput(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		h, err := electorhttp.New(s.candidate("a"), electorhttp.Config{})
		if err != nil {
			t.Fatal(err)
		}
		app := http.NotFoundHandler()
		for _, c := range []struct {
			gate *elector.Gate
			app  http.Handler
			cfg  electorhttp.ForwardConfig
		}{
			{nil, app, electorhttp.ForwardConfig{}},
			{&elector.Gate{}, nil, electorhttp.ForwardConfig{}},
			{&elector.Gate{}, app, electorhttp.ForwardConfig{MaxHeld: -1}},
			{&elector.Gate{}, app, electorhttp.ForwardConfig{MaxBody: -1}},
		} {
			if _, err := h.Forward(c.gate, c.app, c.cfg); err == nil {
				t.Errorf("%+v was accepted", c)
			}
		}
	})
}
