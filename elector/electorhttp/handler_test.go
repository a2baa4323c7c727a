package electorhttp_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electorhttp"
	"github.com/mandate-dev/mandate/elector/electortest"
	"github.com/mandate-dev/mandate/elector/internal/testleak"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
	"github.com/mandate-dev/mandate/elector/proof/testcluster"
)

var must, until = servertest.Must, servertest.Eventually

func TestMain(m *testing.M) {
	logging.Disable()
	testleak.VerifyTestMain(m)
}

const lease = testcluster.Lease

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

func (s *stage) candidate(who string, change ...func(*elector.Config)) *elector.Elector {
	s.t.Helper()
	served := func(cfg *elector.Config) { cfg.Election, cfg.Advertise = "e", "http://"+who+":80" }
	return testcluster.NewCandidate(s.t, s.redis.Quorum(who), who, append([]func(*elector.Config){served}, change...)...).Elector
}

// begin runs f until stop, which waits for its end, or the end of the bubble.
func (s *stage) begin(f func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); f(ctx) }()
	stop = func() { cancel(); <-done }
	s.t.Cleanup(stop)
	return stop
}

// start runs a candidate and its handler.
func (s *stage) start(who string, cfg electorhttp.Config) (*elector.Elector, *electorhttp.Handler) {
	s.t.Helper()
	e := s.candidate(who)
	h, err := electorhttp.New(e, cfg)
	must(s.t, err)
	s.begin(func(ctx context.Context) { _ = e.Run(ctx, h.Work(new(elector.Gate).Work)) })
	s.begin(func(ctx context.Context) { _ = h.Run(ctx) })
	return e, h
}

// startLeader is start for a, and has it lead.
func (s *stage) startLeader(cfg electorhttp.Config) (*elector.Elector, *electorhttp.Handler) {
	s.t.Helper()
	e, h := s.start("a", cfg)
	until(s.t, 2*lease, "a leads", e.IsLeader)
	return e, h
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

// lateAnswer notes until when a server would let an answer be written.
type lateAnswer struct {
	*httptest.ResponseRecorder
	until time.Time
}

func (w *lateAnswer) SetWriteDeadline(t time.Time) error { w.until = t; return nil }

// A step-down whose work does not stop is answered after Config.DrainTimeout, which may be
// longer than what a server gives other answers, and not on a connection that is closed.
func TestStepDownIsAnsweredInTime(t *testing.T) {
	const token = "a long and random secret"
	bubble(t, func(t *testing.T, s *stage) {
		e := s.candidate("a")
		h, err := electorhttp.New(e, electorhttp.Config{Token: token})
		must(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		stop, done := make(chan struct{}), make(chan error, 1)
		go func() { done <- e.Run(ctx, func(context.Context, *elector.Term) error { <-stop; return nil }) }()
		until(t, 2*lease, "a leads", e.IsLeader)
		r := httptest.NewRequest(http.MethodPost, "/resign?force=true", http.NoBody)
		r.Header.Set("Authorization", "Bearer "+token)
		began, w := time.Now(), &lateAnswer{ResponseRecorder: httptest.NewRecorder()}
		h.ServeHTTP(w, r)
		if took := time.Since(began); w.Code != http.StatusAccepted || took != lease || time.Until(w.until) < 5*time.Second {
			t.Errorf("%d %s after %v, could be written for %v", w.Code, w.Body, took, time.Until(w.until))
		}
		close(stop)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// However many ask what only Redis knows, it is asked 8 times at a time: the others
// wait, at most 4 s, and /leader does not wait for them.
func TestQueriesToRedisAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		_, h := s.startLeader(electorhttp.Config{})
		heal := s.redis.CutOff("a") // so that each query takes as long as it may
		took := make(chan time.Duration, 100)
		began := time.Now()
		for range cap(took) {
			go func() {
				w := ask(h, http.MethodGet, "/status")
				if w.Code == http.StatusServiceUnavailable && w.Header().Get("Retry-After") == "" {
					t.Errorf("refused without Retry-After: %s", w.Body)
				}
				if w.Code == http.StatusServiceUnavailable {
					took <- time.Since(began)
				} else {
					took <- -time.Since(began)
				}
			}()
		}
		time.Sleep(time.Second)
		if w := ask(h, http.MethodHead, "/leader"); w.Code != http.StatusOK || time.Since(began) > time.Second {
			t.Errorf("/leader: %d after %v", w.Code, time.Since(began))
		}
		rounds := map[time.Duration]int{}
		for range cap(took) {
			d := <-took
			rounds[d]++
			if d > 4*time.Second || d < -8*time.Second {
				t.Errorf("answered after %v", d.Abs())
			}
		}
		for d, n := range rounds {
			if d < 0 && n > 8 {
				t.Errorf("%d queries ran at the same time: %v", n, rounds)
			}
		}

		heal()
		time.Sleep(lease)
		if w := ask(h, http.MethodGet, "/status"); w.Code != http.StatusOK {
			t.Errorf("afterwards: %d %s", w.Code, w.Body)
		}
	})
}
