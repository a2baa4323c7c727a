package electorhttp_test

import (
	"context"
	"crypto/tls"
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
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electorhttp"
)

// fleet is replicas of a service behind Forward, on a network in memory.
type fleet struct {
	t   *testing.T
	s   *stage
	tls *tls.Config // nil: HTTP/1.1

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
}

func newFleet(t *testing.T, s *stage) *fleet {
	return &fleet{t: t, s: s, replicas: map[string]*replica{}, executed: map[string]int{}, running: map[uint64]int{}}
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
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = electorhttp.Forward(ctx, e, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if r.app != nil {
				r.app(w, req)
				return
			}
			f.serve(w, req, e)
		}), l, cfg)
	}()
	r.stop = func() { cancel(); <-done }
	f.t.Cleanup(r.stop)
	return r
}

// leads makes a candidate lead that runs no Forward.
func (f *fleet) leads(advertise string) {
	e, err := elector.New(f.s.redis.Quorum("a"), elector.Config{Election: "e", ID: "a", Advertise: advertise, Lease: lease, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = e.Run(ctx, new(elector.Gate).Work) }()
	f.t.Cleanup(func() { cancel(); <-ended })
	until(f.t, "a leads", 2*lease, e.IsLeader)
}

func (f *fleet) transport() *http.Transport {
	return &http.Transport{
		DialContext: f.dial, MaxIdleConnsPerHost: 100, IdleConnTimeout: time.Minute, ExpectContinueTimeout: time.Second,
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
	f.s.redis.CutOff(r.id)
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
