package electorhttp_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electorhttp"
	"github.com/mandate-dev/mandate/elector/internal/simtest"
)

func TestMain(m *testing.M) {
	redis.SetLogger(silence{})
	goleak.VerifyTestMain(m)
}

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

const lease = 10 * time.Second

// stage is one Redis in the memory of a bubble, from which candidates can be
// cut off.
type stage struct {
	t     *testing.T
	redis *miniredis.Miniredis

	mu    sync.Mutex
	cut   map[string]bool
	lines map[string][]net.Conn
}

func bubble(t *testing.T, f func(t *testing.T, s *stage)) {
	t.Helper()
	// The race detector crashes when a bubble's goroutines run on several
	// processors; see elector's own bubbles.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	synctest.Test(t, func(t *testing.T) {
		s := &stage{t: t, redis: miniredis.NewMiniRedis(), cut: map[string]bool{}, lines: map[string][]net.Conn{}}
		s.redis.ClockTTL(true)
		t.Cleanup(func() {
			s.redis.Close()
			time.Sleep(time.Minute) // what was left in the background ends by its own bounds
			synctest.Wait()
		})
		f(t, s)
	})
}

func (s *stage) dial(who string) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cut[who] {
		return nil, errors.New("cut off")
	}
	far, err := s.redis.Dial()
	if err != nil {
		return nil, err
	}
	conn := simtest.Buffered(far)
	s.lines[who] = append(s.lines[who], conn)
	return conn, nil
}

// cutOff breaks a candidate's connections, and lets it make no others.
func (s *stage) cutOff(who string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut[who] = true
	for _, c := range s.lines[who] {
		c.Close()
	}
}

// hang makes Redis accept everything and answer nothing.
func (s *stage) hang() {
	hung := make(chan struct{})
	s.redis.Server().SetPreHook(func(*server.Peer, string, ...string) bool { <-hung; return true })
	s.t.Cleanup(func() { close(hung) })
}

func (s *stage) candidate(who string) *elector.Elector {
	s.t.Helper()
	client := redis.NewClient(&redis.Options{
		Addr:   "127.0.0.1:7001",
		Dialer: func(context.Context, string, string) (net.Conn, error) { return s.dial(who) },
	})
	q, err := elector.NewQuorum(client)
	if err != nil {
		s.t.Fatal(err)
	}
	client.Close() // only its options were needed
	s.t.Cleanup(func() { q.Close() })
	e, err := elector.New(q, elector.Config{
		Election: "e", ID: who, Advertise: "http://" + who + ":80", Lease: lease, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return e
}

// start runs a candidate and its handler.
func (s *stage) start(who string, cfg electorhttp.Config) (*elector.Elector, *electorhttp.Handler) {
	s.t.Helper()
	e := s.candidate(who)
	h, err := electorhttp.New(e, cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = e.Run(ctx, func(ctx context.Context, _ *elector.Term) error {
			<-ctx.Done()
			return nil
		})
	})
	wg.Go(func() { _ = h.Run(ctx) })
	s.t.Cleanup(func() { cancel(); wg.Wait() })
	return e, h
}

// until waits for something, in virtual time.
func until(t *testing.T, what string, within time.Duration, ok func() bool) {
	t.Helper()
	for limit := time.Now().Add(within); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}

func ask(h http.Handler, method, path string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, http.NoBody)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}
