package electorhttp_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electorhttp"
	"github.com/mandate-dev/mandate/elector/electortest"
	"github.com/mandate-dev/mandate/elector/internal/testleak"
)

func TestMain(m *testing.M) {
	logging.Disable()
	testleak.VerifyTestMain(m)
}

const lease = 10 * time.Second

// stage is one Redis in the memory of a bubble, from which candidates can be
// cut off.
type stage struct {
	t     *testing.T
	redis *electortest.Redis
}

func bubble(t *testing.T, f func(t *testing.T, s *stage)) {
	t.Helper()
	electortest.Test(t, func(t *testing.T, r *electortest.Redis) { f(t, &stage{t, r}) })
}

func (s *stage) candidate(who string) *elector.Elector {
	s.t.Helper()
	e, err := elector.New(s.redis.Quorum(who), elector.Config{
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
		_ = e.Run(ctx, h.Work(new(elector.Gate).Work))
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
