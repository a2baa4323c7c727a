package electorhttp_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electorhttp"
	"github.com/mandate-dev/mandate/elector/electortest"
)

// Each replica takes requests, and the leader's app answers them, with the term's token.
func TestForward(t *testing.T) {
	forwards(t, func(t *testing.T, f *fleet) {
		a, _ := f.pair()
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
		var host, target string
		var term *elector.Term
		a.app = func(_ http.ResponseWriter, r *http.Request) {
			got, host, target, term = r.Header, r.Host, r.RequestURI, elector.TermOf(r.Context())
		}
		for _, to := range []string{"a", "b"} {
			if _, _, err := f.do(to, http.MethodGet, "/a%2Fb//c?ids=1;2&half=%zz", "", "X-Forwarded-For", "192.0.2.7", "X-Forwarded-Proto", "https", "Forwarded", "for=192.0.2.7",
				"Mandate-Token", "99", "mandate_token", "99", "Mandate_Passed-By", "e/one", "Connection", "X-Hop", "X-Hop", "1", "X-End", "2"); err != nil {
				t.Fatal(err)
			}
			token := got.Get("Mandate-Token")
			delete(got, "Mandate-Token")
			for name := range got {
				if strings.HasPrefix(name, "Mandate") {
					t.Errorf("the app has got a client's %s", name)
				}
			}
			if token != fmt.Sprint(a.Term().Token()) || term != a.Term() || host != to ||
				!strings.HasPrefix(got.Get("X-Forwarded-For"), "192.0.2.7, ") && got.Get("X-Forwarded-For") != "192.0.2.7" ||
				got.Get("X-Forwarded-Proto") != "https" || got.Get("Forwarded") != "for=192.0.2.7" || to == "b" && got.Get("X-Hop") != "" || got.Get("X-End") != "2" ||
				target != "/a%2Fb//c?ids=1;2&half=%zz" {
				t.Errorf("the app has got %v, host %q, %q, the term %p", got, host, target, term)
			}
		}
	})
}

// What Local chooses is answered by each replica's own app, without a term, and also without a leader. That is
// never a request of a method that may change something, whatever Local returns.
func TestForwardLocal(t *testing.T) {
	forwards(t, func(t *testing.T, f *fleet) {
		f.cfg.Local = func(r *http.Request) bool { return r.URL.Path != "/newest" }
		a, b := f.pair()
		for _, r := range []*replica{a, b} {
			r.app = func(w http.ResponseWriter, req *http.Request) {
				names := 0
				for name := range req.Header {
					if strings.HasPrefix(name, "Mandate") || name == "Connection" {
						names++
					}
				}
				fmt.Fprintf(w, "%s %p %d", r.id, elector.TermOf(req.Context()), names)
			}
		}
		unled := func(id string) string { return fmt.Sprintf("%s %p 0", id, (*elector.Term)(nil)) }
		led := fmt.Sprintf("a %p 1", a.Term())
		wants := func(want, to, path string, methods ...string) {
			t.Helper()
			for _, method := range methods {
				resp, body, err := f.do(to, method, path, "x", "Mandate-Token", "99", "mandate_token", "99", "Connection", "Authorization")
				must(t, err)
				if method != http.MethodHead && !strings.Contains(body, want) || (resp.Header.Get("Mandate-Leader") != "") != (want == led) {
					t.Errorf("%s %s to %s: %q %v, want %q", method, path, to, body, resp.Header, want)
				}
			}
		}
		reads := []string{http.MethodGet, http.MethodHead, http.MethodOptions}
		writes := []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, "PURGE", "get", "QUERY"}
		for _, id := range []string{"a", "b"} {
			wants(unled(id), id, "/", reads...)
			wants(led, id, "/newest", reads...)
			wants(led, id, "/", writes...)
		}
		f.kill(a)
		wants(unled("b"), "b", "/", reads...)
		wants("the request was not executed", "b", "/newest", http.MethodGet)
		wants("the request was not executed", "b", "/", writes...)
	})
}

// During planned hand-overs and restarts a request is executed, or answered 503, or refused before it was sent,
// whatever its method. So a client that repeats it then has each executed once.
func TestForwardDuringHandovers(t *testing.T) {
	forwards(t, func(t *testing.T, f *fleet) {
		ids := []string{"a", "b", "c"}
		for _, id := range ids {
			f.start(id, func(c *elector.Config) { c.Cooldown = -1 })
		}
		until(t, 2*lease, "one leads", func() bool { return f.leader() != nil })
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
					for errors.Is(err, errRefused) || err == nil && resp.StatusCode == http.StatusServiceUnavailable {
						time.Sleep(10 * time.Millisecond)
						resp, body, err = f.do(ids[rand.IntN(len(ids))], http.MethodPost, path, "x")
					}
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
		for i := range 9 {
			was := f.leader()
			if was == nil {
				t.Fatal("no leader")
			}
			token := was.Term().Token()
			if i%3 == 0 {
				was.stop()
				f.start(was.id, func(c *elector.Config) { c.Cooldown = -1 })
			} else if i%3 == 1 {
				was.Term().Resign()
			} else if _, _, err := was.Election().Transfer(context.Background(), ids[(slices.Index(ids, was.id)+1)%len(ids)]); err != nil {
				t.Fatal(err)
			}
			until(t, lease, "the next leads", func() bool { l := f.leader(); return l != nil && l.Term().Token() > token })
			time.Sleep(lease / 20)
		}
		cancel()
		clients.Wait()
		for path := range sent {
			if f.executed[path] != 1 {
				t.Errorf("%s was executed %d times", path, f.executed[path])
			}
		}
		if len(sent) < 400 || slowest > 200*time.Millisecond {
			t.Errorf("%d requests, the slowest took %v", len(sent), slowest)
		}
	})
}

// Regression: an app answered, the lock was released at once, and the connection was cut as if the app had not
// answered: under the request that came next on it.
func TestForwardCutsNoNextRequest(t *testing.T) {
	for range 5 { // each shows it in three of four tries
		forwards(t, func(t *testing.T, f *fleet) {
			a, _ := f.pair()
			a.app = func(http.ResponseWriter, *http.Request) { time.Sleep(100 * time.Millisecond) }
			var clients sync.WaitGroup
			for range 200 {
				clients.Go(func() {
					for range 2 { // the second is forwarded on a connection of the first
						resp, body, err := f.do("b", http.MethodPost, "/", "x")
						if err != nil || resp.StatusCode == http.StatusBadGateway {
							t.Errorf("%v %+v %s", err, resp, body)
						}
					}
				})
			}
			time.Sleep(50 * time.Millisecond)
			a.Term().Resign()
			clients.Wait()
		})
	}
}

// What a leader has not answered when it dies is not sent to another one, whatever its method.
func TestForwardWhenTheLeaderDies(t *testing.T) {
	forwards(t, func(t *testing.T, f *fleet) {
		a, b := f.pair()
		a.app = func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() } // it has not answered when it dies
		answers := make(chan string, 2)
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			go func() {
				resp, body, err := f.do("b", method, "/", "x")
				if err != nil || resp.StatusCode != http.StatusBadGateway {
					t.Errorf("%s: %v %+v", method, err, resp)
				}
				answers <- body
			}()
		}
		time.Sleep(time.Second)
		f.kill(a)
		for range cap(answers) {
			if body := <-answers; !strings.Contains(body, "not known whether") {
				t.Error(body)
			}
		}
		f.wantsNothingDone("b", http.StatusServiceUnavailable, "") // not sent to a leader that is dead
		until(t, 2*lease, "b leads", b.IsLeader)
	})
}

// A request to a leader that is suspended is answered once another one leads, and not only when that one resumes: also
// by the next leader.
func TestForwardToAReplacedLeader(t *testing.T) {
	forwards(t, func(t *testing.T, f *fleet) {
		suspended := f.leadsAt(func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
		b, c := f.start("b"), f.start("c")
		time.Sleep(lease)
		answers := make(chan string, 2)
		for _, to := range []string{"b", "c"} {
			go func() {
				_, body, err := f.do(to, http.MethodPost, "/", "x")
				answers <- fmt.Sprint(body, err)
			}()
		}
		f.redis.CutOff("a")
		until(t, 2*lease, "another leads", func() bool { return b.IsLeader() || c.IsLeader() })
		elected := time.Now()
		for range cap(answers) {
			if answer := <-answers; !strings.Contains(answer, "not known whether") || !strings.Contains(answer, "leads now") || time.Since(elected) > lease/8 {
				t.Errorf("%v after the election: %s", time.Since(elected), answer)
			}
		}
		f.kill(suspended)
	})
}

// untraced carries requests, and does not report what it does.
type untraced struct{ http.RoundTripper }

func (u untraced) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer context.AfterFunc(r.Context(), cancel)()
	return u.RoundTripper.RoundTrip(r.WithContext(ctx))
}

// With a transport that does not report what it has sent, a request that was lost with its connection may
// have been executed: 503 would permit to send it again.
func TestForwardByAnUntracedTransport(t *testing.T) {
	forwards(t, func(t *testing.T, f *fleet) {
		a := f.lead()
		transport := &http.Transport{DialContext: f.dial}
		t.Cleanup(transport.CloseIdleConnections)
		f.cfg.Transport = untraced{transport}
		f.start("b")
		time.Sleep(lease)
		a.app = func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) } // ends the connection
		f.wantsNothingDone("b", http.StatusBadGateway, "")
	})
}

// A request is forwarded once: also where the leader advertises another replica, or a client
// says that it was forwarded.
func TestForwardOnce(t *testing.T) {
	forwards(t, func(t *testing.T, f *fleet) {
		f.lead(func(c *elector.Config) { c.Advertise = "http://c" })
		f.start("b")
		f.start("c")
		time.Sleep(lease)
		for _, to := range []string{"b", "c"} {
			f.wantsNothingDone(to, http.StatusServiceUnavailable, "")
		}
		f.wantsNothingDone("b", http.StatusServiceUnavailable, "", "Mandate-Forwarded", "me")
	})
}

// Where the leader can't be reached, nothing is executed, and the answer says why.
func TestForwardToNoAddress(t *testing.T) {
	for address, want := range map[string]string{
		"":              `the leader a advertises \"\": set Config.Advertise`,
		"ftp://a":       `the leader a advertises \"ftp://a\": set Config.Advertise`,
		":8080":         `the leader a advertises \":8080\": set Config.Advertise`, // not this machine
		"http://nobody": "the leader can't be reached at http://nobody",
	} {
		forwards(t, func(t *testing.T, f *fleet) {
			f.leads(address)
			f.start("b")
			time.Sleep(lease)
			f.wantsNothingDone("b", http.StatusServiceUnavailable, want)
		})
	}
}

// underWay sends a request that r's app serves until its context ends, which is to be by the end of the term. It
// returns when the app has it; the channel has how long that took, once the request has been answered.
func (f *fleet) underWay(r *replica) <-chan time.Duration {
	began, ended, took := make(chan struct{}), make(chan struct{}), make(chan time.Duration, 1)
	var start, end time.Time
	r.app = func(_ http.ResponseWriter, req *http.Request) {
		start = time.Now()
		close(began)
		defer close(ended) // the connection of a lost term may be closed before
		<-req.Context().Done()
		end = time.Now()
		if cause := context.Cause(req.Context()); !errors.As(cause, new(*elector.Ended)) {
			f.t.Errorf("%v", cause)
		}
		if l := f.leader(); l != nil && l != r {
			f.t.Errorf("the context of a request still lived, and %s leads since %v", l.id, time.Since(l.Term().Since()))
		}
	}
	go func() {
		for { // r may lead a moment before the gate has its term
			resp, _, err := f.do(r.ID(), http.MethodGet, "/", "")
			if err != nil || resp.StatusCode != http.StatusServiceUnavailable {
				break
			}
			time.Sleep(time.Millisecond)
		}
		<-ended
		took <- end.Sub(start)
	}()
	<-began
	return took
}

// What is under way may finish after a planned end; after any other its context ends with the term.
func TestForwardFinishes(t *testing.T) {
	for name, c := range map[string]struct {
		end   func(*fleet, *replica)
		after time.Duration
	}{
		"planned": {func(_ *fleet, a *replica) { a.Term().Resign() }, 2 * time.Second},
		"lost":    {func(f *fleet, a *replica) { f.redis.TakeLease(a.Elector) }, 0},
		"probe":   {func(_ *fleet, a *replica) { a.probe.Fail(errors.New("broken")) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			forwards(t, func(t *testing.T, f *fleet) {
				f.cfg.Finish = 2 * time.Second
				a := f.lead()
				took, at, term := f.underWay(a), time.Now(), a.Term()
				c.end(f, a)
				<-term.Done()
				over := time.Since(at)
				if took := <-took; took != over+c.after {
					t.Errorf("its context ended after %v, when the term had ended after %v", took, over)
				}
			})
		})
	}
}

// Regression: what was under way at a planned end had Finish, also when the lease was not kept meanwhile, and
// went on while another candidate led.
func TestForwardFinishesWithTheLease(t *testing.T) {
	for name, finish := range map[string]time.Duration{"default": 0, "long": 6 * time.Second} {
		t.Run(name, func(t *testing.T) {
			forwards(t, func(t *testing.T, f *fleet) {
				f.cfg.Finish = finish
				a, _ := f.pair(func(c *elector.Config) { c.StopMargin = 500 * time.Millisecond })
				took := f.underWay(a)
				f.redis.CutOff("a")
				until(t, lease, "the lease is nearly over", func() bool { return a.Term().Left() < 200*time.Millisecond })
				a.Term().Resign()
				<-took
			})
		})
	}
}

// fleet is replicas of a service behind Forward, on a network in memory.
type fleet struct {
	*stage
	cfg electorhttp.ForwardConfig // of those that start
	tls *tls.Config               // nil: HTTP/1.1

	mu       sync.Mutex
	replicas map[string]*replica
	executed map[string]int // by request
	running  map[uint64]int // requests that the app serves, by token
	newest   uint64         // token
}

type replica struct {
	*elector.Elector
	id    string
	stop  func() // ends Forward, and waits for it
	l     *pipeNet
	dead  chan struct{}
	conns []net.Conn
	app   http.HandlerFunc // nil: the fleet's
	probe electortest.Probe
}

func forwards(t *testing.T, f func(t *testing.T, f *fleet)) {
	t.Helper()
	bubble(t, func(t *testing.T, s *stage) {
		f(t, &fleet{stage: s, replicas: map[string]*replica{}, executed: map[string]int{}, running: map[uint64]int{}})
	})
}

func (f *fleet) start(id string, change ...func(*elector.Config)) *replica {
	f.t.Helper()
	r := &replica{id: id, l: newPipeNet(), dead: make(chan struct{})}
	r.Elector = f.candidate(id, append([]func(*elector.Config){func(c *elector.Config) { c.Probe = &r.probe }}, change...)...)
	cfg := f.cfg
	if cfg.Transport == nil {
		transport := f.transport()
		f.t.Cleanup(transport.CloseIdleConnections)
		cfg.Transport = transport
	}
	f.mu.Lock()
	f.replicas[id] = r
	f.mu.Unlock()
	var l net.Listener = r.l
	if f.tls != nil {
		l = tls.NewListener(l, f.tls)
	}
	app := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if r.app != nil {
			r.app(w, req)
			return
		}
		f.serve(w, req, r.Elector)
	})
	r.stop = f.begin(func(ctx context.Context) { _ = electorhttp.Forward(ctx, r.Elector, app, l, cfg) })
	return r
}

// lead starts a, and has it lead.
func (f *fleet) lead(change ...func(*elector.Config)) *replica {
	f.t.Helper()
	a := f.start("a", change...)
	until(f.t, 2*lease, "a leads", a.IsLeader)
	return a
}

// pair has a lead, and b know it.
func (f *fleet) pair(change ...func(*elector.Config)) (a, b *replica) {
	f.t.Helper()
	a, b = f.lead(change...), f.start("b", change...)
	time.Sleep(lease)
	return a, b
}

// leads makes a candidate lead that runs no Forward.
func (f *fleet) leads(advertise string) {
	e := f.candidate("a", func(c *elector.Config) { c.Advertise = advertise })
	f.begin(func(ctx context.Context) { _ = e.Run(ctx, new(elector.Gate).Work) })
	until(f.t, 2*lease, "a leads", e.IsLeader)
}

// leadsAt makes a candidate lead at whose address is no Forward, but serve.
func (f *fleet) leadsAt(serve func(net.Conn)) *replica {
	f.leads("http://a")
	r := &replica{l: newPipeNet(), dead: make(chan struct{})}
	f.replicas["a"] = r
	f.t.Cleanup(func() { _ = r.l.Close() })
	go func() {
		for c, err := r.l.Accept(); err == nil; c, err = r.l.Accept() {
			go serve(c)
		}
	}()
	return r
}

func (f *fleet) transport() *http.Transport {
	return &http.Transport{
		DialContext: f.dial, MaxIdleConnsPerHost: 300, IdleConnTimeout: time.Minute, ExpectContinueTimeout: time.Second,
		ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12},
	}
}

var errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}

// dial connects to a replica by its name.
func (f *fleet) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	host, _, _ := net.SplitHostPort(addr)
	f.mu.Lock()
	r := f.replicas[host]
	f.mu.Unlock()
	if r == nil {
		return nil, errRefused
	}
	client, server := net.Pipe()
	select {
	case <-r.dead:
		return nil, errRefused
	default:
	}
	select {
	case r.l.conns <- server:
		f.mu.Lock()
		defer f.mu.Unlock()
		r.conns = append(r.conns, server)
		return client, nil
	case <-r.l.done:
		return nil, errRefused
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// kill is a kill -9: the replica's connections to Redis and to the others end.
func (f *fleet) kill(r *replica) {
	f.redis.CutOff(r.id)
	close(r.dead)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range r.conns {
		_ = c.Close()
	}
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
	must(f.t, err)
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

// wantsNothingDone wants a POST to be answered so, and no request to have been executed.
func (f *fleet) wantsNothingDone(to string, status int, says string, header ...string) {
	f.t.Helper()
	resp, body, err := f.do(to, http.MethodPost, "/", "x", header...)
	if err != nil || resp.StatusCode != status || !strings.Contains(body, says) || len(f.executed) > 0 {
		f.t.Errorf("%v %+v %s; executed %v", err, resp, body, f.executed)
	} else if status == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") == "" {
		f.t.Errorf("no Retry-After: %v", resp.Header)
	}
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
