package electorhttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electorhttp"
	"github.com/mandate-dev/mandate/health"
)

// underWay sends a request that r's app serves until its context ends, which is to be by the end of the term. It
// returns when the app has it; the channel has how long that took, once the request has been answered.
func (f *fleet) underWay(r *replica) <-chan time.Duration {
	began, took := make(chan struct{}), make(chan time.Duration, 1)
	var start, end time.Time
	r.app = func(_ http.ResponseWriter, req *http.Request) {
		start = time.Now()
		close(began)
		<-req.Context().Done()
		end = time.Now()
		if cause := context.Cause(req.Context()); !errors.As(cause, new(*elector.Ended)) {
			f.t.Errorf("%v", cause)
		}
	}
	go func() {
		_, _, _ = f.do(r.ID(), http.MethodGet, "/", "")
		took <- end.Sub(start)
	}()
	<-began
	return took
}

// What is under way may finish after a planned end; after any other its context ends at once.
func TestForwardFinishes(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		f := newFleet(t, s)
		a := f.start("a", electorhttp.ForwardConfig{Finish: 2 * time.Second})
		until(t, "a leads", 2*lease, a.IsLeader)
		took := f.underWay(a)
		a.Term().Resign()
		if took := <-took; took != 2*time.Second {
			t.Errorf("its context ended %v after a planned end", took)
		}
		until(t, "a leads", 2*lease, a.IsLeader)
		took = f.underWay(a)
		at := time.Now()
		term := a.Term()
		lost := make(chan time.Duration, 1)
		go func() { <-term.Done(); lost <- time.Since(at) }()
		f.s.redis.TakeLease(a.Elector)
		if took, lost := <-took, <-lost; took > lost {
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
		took, at := f.underWay(a), time.Now()
		term := a.Term()
		broken.Store(true)
		<-term.Done()
		led := time.Since(at)
		if took := <-took; took != led {
			t.Errorf("its context ended %v after the term of a leader that is not healthy", took-led)
		}
	})
}

// Nothing finishes either when the lock is lost meanwhile.
func TestForwardFinishesWithTheLock(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		f := newFleet(t, s)
		a := f.start("a", electorhttp.ForwardConfig{Finish: 9 * time.Second})
		until(t, "a leads", 2*lease, a.IsLeader)
		took := f.underWay(a)
		a.Term().Resign()
		if err := s.redis.Client("ops").Del(t.Context(), "mandate:{e}:lock").Err(); err != nil {
			t.Fatal(err)
		}
		if took := <-took; took > lease/4+lease/16 { // the next renewal, and the next look
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
