package electorhttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/electorhttp"
)

// Whoever was told 200 may work for valid_for_ms, also when the term ends in
// between; the next leader starts after that, and soon.
func TestNoLeaderBeforeThePromiseHasLapsed(t *testing.T) {
	for name, end := range plannedEnds {
		t.Run(name, func(t *testing.T) {
			for _, query := range []string{"", "?worker=worker-1234"} {
				bubble(t, func(t *testing.T, s *stage) {
					p := startPair(t, s, electorhttp.Config{})
					code, l, lapses := p.ask(query)
					if code != http.StatusOK || l.ValidFor != (lease/5).Milliseconds() {
						t.Fatalf("%d, %+v", code, l)
					}
					end(p)
					until(t, "a answers 503", lease/5, func() bool {
						code, l, _ := p.ask("?valid_for_ms=0")
						return code == http.StatusServiceUnavailable && l.ValidFor == 0
					})
					late := p.next().Sub(lapses)
					if late < 0 {
						t.Errorf("b leads %v before the permission of a's worker has lapsed", -late)
					}
					if late > 200*time.Millisecond {
						t.Errorf("b leads only %v after it", late)
					}
				})
			}
		})
	}
}

// Many ask at any time around the end: not one answer reaches beyond it.
func TestNoPromiseSlipsThrough(t *testing.T) {
	for name, end := range plannedEnds {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *stage) {
				p := startPair(t, s, electorhttp.Config{Promise: lease / 20})
				var mu sync.Mutex
				var last time.Time
				var wg sync.WaitGroup
				asking, enough := context.WithCancel(context.Background())
				for i := range 5 {
					wg.Go(func() {
						for ; asking.Err() == nil; time.Sleep(time.Duration(3+i) * 100 * time.Microsecond) {
							code, _, until := p.ask(fmt.Sprintf("?worker=worker-%d", 1000+i))
							mu.Lock()
							if code == http.StatusOK && until.After(last) {
								last = until
							}
							mu.Unlock()
						}
					})
				}
				time.Sleep(50 * time.Millisecond)
				end(p)
				at := p.next()
				enough()
				wg.Wait()
				if d := last.Sub(at); d > 0 {
					t.Errorf("a worker may work for %v beside b", d)
				}
			})
		})
	}
}

// A worker that reports that it has stopped is not waited for; others are.
func TestStoppedWorkersAreNotWaitedFor(t *testing.T) {
	const one, two = "worker-one", "worker-two"
	for name, tc := range map[string]struct {
		asked   []string // queries before the end
		stopped []string // who reports
		at      time.Duration
	}{
		"the only one":          {[]string{"?worker=" + one}, []string{one}, 0},
		"both":                  {[]string{"?worker=" + one, "?worker=" + two}, []string{one, two}, 0},
		"one of two":            {[]string{"?worker=" + one, "?worker=" + two}, []string{one}, lease / 5},
		"one, and a nameless":   {[]string{"?worker=" + one, ""}, []string{one}, lease / 5},
		"nobody":                {[]string{"?worker=" + one}, nil, lease / 5},
		"one with a short one":  {[]string{"?worker=" + one + "&valid_for_ms=500"}, nil, 500 * time.Millisecond},
		"only load balancers":   {[]string{"?valid_for_ms=0"}, nil, 0},
		"somebody else's name":  {[]string{"?worker=" + one}, []string{two}, lease / 5},
		"the answer was lost":   {[]string{"?worker=" + one}, []string{one, one, one}, 0},
		"a shorter one later":   {[]string{"", "?valid_for_ms=100"}, nil, lease / 5},
		"and by the same":       {[]string{"?worker=" + one, "?worker=" + one + "&valid_for_ms=100"}, nil, lease / 5},
		"asked for more than L": {[]string{"?valid_for_ms=99999"}, nil, lease / 5},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *stage) {
				p := startPair(t, s, electorhttp.Config{})
				token := p.a.Term().Token()
				for _, query := range tc.asked {
					if code, l, _ := p.ask(query); code != http.StatusOK || l.Token != token {
						t.Fatalf("%d, %+v", code, l)
					}
				}
				began := time.Now()
				p.stop()
				time.Sleep(10 * time.Millisecond)
				for _, who := range tc.stopped {
					p.stopped(who, token)
				}
				if took := p.next().Sub(began); took < tc.at || took > tc.at+200*time.Millisecond {
					t.Errorf("b leads after %v, want %v", took, tc.at)
				}
			})
		})
	}
}

func TestStoppedIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		const who = "worker-1234"
		p := startPair(t, s, electorhttp.Config{})
		token := p.a.Term().Token()
		if code := p.stopped(who, token); code != http.StatusConflict {
			t.Errorf("while the term holds, nothing promised: %d", code)
		}
		_, _, until := p.ask("?worker=" + who)
		if code := p.stopped(who, token); code != http.StatusConflict {
			t.Errorf("while the term holds: %d", code)
		}
		p.stop()
		time.Sleep(time.Millisecond)
		for path, want := range map[string]int{
			"/stopped": 400, "/stopped?worker=" + who: 400, fmt.Sprintf("/stopped?token=%d", token): 400, "/stopped?worker=" + who + "&token=x": 400,
			fmt.Sprintf("/stopped?worker=short&token=%d", token): 400, fmt.Sprintf("/stopped?worker=worker%%0a1234&token=%d", token): 400,
			fmt.Sprintf("/stopped?worker=%s&token=%d", who, token+1): 409, fmt.Sprintf("/stopped?worker=%s&token=%d", who, token-1): 409,
			fmt.Sprintf("/stopped?worker=worker-5678&token=%d", token): 404,
		} {
			if w := ask(p.ha, http.MethodPost, path); w.Code != want {
				t.Errorf("POST %s: %d %s, want %d", path, w.Code, w.Body, want)
			}
		}
		if at := p.next(); at.Before(until) {
			t.Errorf("b leads %v before the permission has lapsed", until.Sub(at))
		}
		if code := p.stopped(who, token); code != http.StatusOK { // late, and no harm
			t.Errorf("afterwards: %d", code)
		}
	})
}

// What a request may ask for, and what it gets.
func TestRequestedPromise(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		p := startPair(t, s, electorhttp.Config{Promise: time.Second})
		for query, want := range map[string]int64{
			"": 1000, "?valid_for_ms=": 1000, "?valid_for_ms=250": 250, "?valid_for_ms=0": 0, "?valid_for_ms=5000": 1000, "?worker=worker-1234": 1000,
		} {
			if code, l, _ := p.ask(query); code != http.StatusOK || l.ValidFor != want {
				t.Errorf("%q: %d, %d ms, want %d", query, code, l.ValidFor, want)
			}
		}
		for _, query := range []string{"?valid_for_ms=-1", "?valid_for_ms=1s", "?valid_for_ms=9999999999", "?worker=", "?worker=short", "?worker=a%20worker%00"} {
			if w := ask(p.ha, http.MethodGet, "/leader"+query); w.Code != http.StatusBadRequest {
				t.Errorf("%q: %d %s", query, w.Code, w.Body)
			}
		}
	})
}

// HEAD can't name a time, so it promises none.
func TestHeadPromisesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		p := startPair(t, s, electorhttp.Config{})
		if w := ask(p.ha, http.MethodHead, "/leader"); w.Code != http.StatusOK {
			t.Fatal(w.Code)
		}
		began := time.Now()
		p.stop()
		if took := p.next().Sub(began); took > 200*time.Millisecond {
			t.Errorf("b leads only after %v", took)
		}
	})
}

// A handler whose promises nobody keeps makes none.
func TestNoPromiseWithoutWork(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		_, h, term := s.campaign("a")
		defer term.Close(t.Context())
		if code, l := leadership(t, h); code != http.StatusOK || l.ValidFor != 0 {
			t.Errorf("%d, %+v", code, l)
		}
	})
	bubble(t, func(t *testing.T, s *stage) {
		e, h := s.start("a", electorhttp.Config{Promise: -1})
		until(t, "a leads", 2*lease, e.IsLeader)
		if code, l := leadership(t, h); code != http.StatusOK || l.ValidFor != 0 {
			t.Errorf("%d, %+v", code, l)
		}
	})
}

// An unhealthy candidate is not ready, and says since when: an operator who asks at 3 a.m. wants to
// know what happened then.
func TestReadinessHasSince(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		p := startPair(t, s, electorhttp.Config{})
		since := func() (code int, at time.Time) {
			w := ask(p.ha, http.MethodGet, "/ready")
			var answer struct {
				UnhealthySince time.Time `json:"unhealthy_since"`
			}
			if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
				t.Fatalf("%v: %s", err, w.Body)
			}
			return w.Code, answer.UnhealthySince
		}
		if code, at := since(); code != http.StatusOK || !at.IsZero() {
			t.Errorf("healthy: %d, unhealthy since %v", code, at)
		}
		before := time.Now()
		p.mu.Lock()
		p.unhealthy = errors.New("the disk is full")
		p.mu.Unlock()
		time.Sleep(lease)
		failed := time.Now()
		time.Sleep(10 * lease) // it stays the first failure
		if code, at := since(); code != http.StatusServiceUnavailable || at.Before(before) || at.After(failed) {
			t.Errorf("unhealthy: %d, since %v, want between %v and %v", code, at, before, failed)
		}
		p.mu.Lock()
		p.unhealthy = nil
		p.mu.Unlock()
		time.Sleep(lease)
		if code, at := since(); code != http.StatusOK || !at.IsZero() {
			t.Errorf("healthy again: %d, unhealthy since %v", code, at)
		}
	})
}
