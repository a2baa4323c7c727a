package conns

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	miniserver "github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/mandate-dev/mandate/elector/internal/testleak"
)

func TestMain(m *testing.M) {
	logging.Disable()
	testleak.VerifyTestMain(m)
}

const dialling = 300 * time.Millisecond

// server is a Redis that takes its time to be dialled.
type server struct {
	m     *miniredis.Miniredis
	dials atomic.Int32

	mu   sync.Mutex
	open []net.Conn
}

func (s *server) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	s.dials.Add(1)
	select {
	case <-time.After(dialling):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	c, err := s.m.Dial()
	s.mu.Lock()
	s.open = append(s.open, c)
	s.mu.Unlock()
	return c, err
}

// cut ends all connections.
func (s *server) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.open {
		c.Close()
	}
	s.open = nil
}

// pooled runs f with a client in a bubble.
func pooled(t *testing.T, f func(t *testing.T, s *server, c *redis.Client, p *Pool)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &server{m: miniredis.NewMiniRedis()}
		c := redis.NewClient(&redis.Options{
			Addr: "127.0.0.1:7000", Dialer: s.dial, MaxRetries: -1, DialerRetries: 1, DialTimeout: 2 * time.Second,
			ContextTimeoutEnabled: true, DisableIdentity: true, PoolSize: 8,
		})
		p := New(c.Options(), false)
		c.AddHook(Hook{Pool: p})
		t.Cleanup(func() { p.Close(); c.Close(); s.m.Close() })
		f(t, s, c, p)
	})
}

// ping asks for an answer within d of the moment it is sent, and waits as long for the connection.
func ping(t *testing.T, c *redis.Client, d time.Duration) error {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	return c.Ping(Bound(ctx, d, nil)).Err()
}

// A request that has less time than a connection takes is not answered; the one after it is.
func TestConnectionsOutliveTheirRequests(t *testing.T) {
	pooled(t, func(t *testing.T, s *server, c *redis.Client, _ *Pool) {
		if err := ping(t, c, dialling/3); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("the first request: %v", err)
		}
		time.Sleep(dialling)
		for range 100 {
			if err := ping(t, c, time.Millisecond); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait() // the spare one is dialled in the background
		if n := s.dials.Load(); n != 1+spare {
			t.Errorf("%d connections were made, want one and a spare one", n)
		}
		time.Sleep(2 * dialling) // also the spare one is ready
		s.cut()
		if err := ping(t, c, time.Millisecond); err == nil {
			t.Fatal("a request through a connection that was cut succeeded")
		}
		time.Sleep(dialling) // nobody waits for it
		if err := ping(t, c, time.Millisecond); err != nil {
			t.Errorf("a connection that was lost was not replaced: %v", err)
		}
	})
}

// A request that waited for its connection is not sent when it is not wanted any more.
func TestUnwantedIsNotSent(t *testing.T) {
	pooled(t, func(t *testing.T, s *server, c *redis.Client, _ *Pool) {
		err := c.Set(Bound(t.Context(), time.Second, func(bool) bool { return false }), "k", "v", 0).Err()
		if !errors.Is(err, ErrUnwanted) || s.m.Exists("k") {
			t.Errorf("%v", err)
		}
	})
}

// A request whose answer is lost is sent once, also where it is the first of its connection.
func TestNothingIsSentTwice(t *testing.T) {
	m, p, c := listening(t)
	var sent atomic.Int32
	m.Server().SetPreHook(func(peer *miniserver.Peer, cmd string, _ ...string) bool {
		if cmd != "INCR" {
			return false
		}
		sent.Add(1)
		peer.Close()
		return true
	})
	for i := range int32(6) {
		if i > 2 {
			p.settle()
		}
		if err := c.Incr(t.Context(), "k").Err(); err == nil {
			t.Error("a lost answer is no error")
		}
		if n := sent.Load(); n != i+1 {
			t.Fatalf("sent %d times, want %d", n, i+1)
		}
	}
}

// listening is a client of a server with a listener: go-redis looks into true sockets only.
func listening(t *testing.T) (*miniredis.Miniredis, *Pool, *redis.Client) {
	m := miniredis.RunT(t)
	c := redis.NewClient(&redis.Options{Addr: m.Addr(), MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true})
	p := New(c.Options(), false)
	c.AddHook(Hook{Pool: p})
	t.Cleanup(func() { p.Close(); c.Close() })
	return m, p, c
}

// settle waits until there is a connection, and none is being made.
func (p *Pool) settle() {
	for {
		p.mu.Lock()
		quiet := p.pending == 0 && len(p.idle) > 0
		p.mu.Unlock()
		if quiet {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// to is a connection to an address of its own.
type to struct {
	net.Conn

	addr string
}

func (c to) RemoteAddr() net.Addr { return &net.UnixAddr{Name: c.addr} }

// Where the dialer asks where the server is, nothing is sent to a former master once there
// is a connection to the new one: neither over a connection from before, nor over one that
// was begun before and is ready only now.
func TestFormerMasterIsSentNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		former, now := miniredis.NewMiniRedis(), miniredis.NewMiniRedis()
		type way struct {
			m    *miniredis.Miniredis
			addr string
			wait time.Duration
		}
		var mu sync.Mutex
		at := way{former, "former", 0}
		lead := func(w way) { mu.Lock(); at = w; mu.Unlock() }
		c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:7000", MaxRetries: -1, DialerRetries: 1, DialTimeout: time.Minute, Dialer: func(context.Context, string, string) (net.Conn, error) {
			mu.Lock()
			w := at
			mu.Unlock()
			time.Sleep(w.wait)
			conn, err := w.m.Dial()
			return to{conn, w.addr}, err
		}})
		p := New(c.Options(), true)
		c.AddHook(Hook{Pool: p})
		defer func() { p.Close(); c.Close(); former.Close(); now.Close() }()
		request := func() error { return c.Incr(t.Context(), "k").Err() }
		for range 5 { // two connections to the former one
			if err := request(); err != nil {
				t.Fatal(err)
			}
		}
		begin := func() { p.mu.Lock(); p.connect(); p.mu.Unlock(); synctest.Wait() }
		lead(way{former, "former", 10 * time.Second})
		begin() // it will be late
		lead(way{now, "now", 0})
		begin()
		sent, _ := former.Get("k")
		for i := range 40 {
			if err := request(); err != nil {
				t.Fatal(err)
			}
			if i == 20 {
				time.Sleep(time.Minute)
			}
		}
		if again, _ := former.Get("k"); again != sent {
			t.Errorf("the former master took %s requests, of them %s before", again, sent)
		}
	})
}
