package electorhttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electorhttp"
	"github.com/mandate-dev/mandate/elector/electortest"
)

// pair is a leader whose answers a worker relies on, and the candidate that leads
// after it.
type pair struct {
	t      *testing.T
	a, b   *elector.Elector
	ha     *electorhttp.Handler
	stop   func()     // shuts a down
	finish chan error // ends a's work
	probe  electortest.Probe
}

func startPair(t *testing.T, s *stage, cfg electorhttp.Config) *pair {
	t.Helper()
	p := &pair{t: t, finish: make(chan error)}
	p.a = s.candidate("a", func(c *elector.Config) {
		c.ProbeSettings.Failures, c.Probe = 1, &p.probe
	})
	var err error
	if p.ha, err = electorhttp.New(p.a, cfg); err != nil {
		t.Fatal(err)
	}
	p.stop = s.begin(func(ctx context.Context) {
		_ = p.a.Run(ctx, p.ha.Work(func(ctx context.Context, _ *elector.Term) error {
			select {
			case <-ctx.Done():
				return nil
			case err := <-p.finish:
				return err
			}
		}))
	})
	until(t, 2*lease, "a leads", p.a.IsLeader)
	p.b, _ = s.start("b", electorhttp.Config{})
	time.Sleep(lease)
	return p
}

// ask is a request of a worker, and until when it may work.
func (p *pair) ask(query string) (code int, l electorhttp.Leadership, until time.Time) {
	p.t.Helper()
	asked := time.Now()
	w := ask(p.ha, http.MethodGet, "/leader"+query)
	must(p.t, json.Unmarshal(w.Body.Bytes(), &l))
	return w.Code, l, asked.Add(time.Duration(l.ValidFor) * time.Millisecond)
}

var plannedEnds = map[string]func(*pair){
	"resigned":  func(p *pair) { go func() { _ = p.a.Resign(context.Background()) }() },
	"shut down": func(p *pair) { go p.stop() },
	"unhealthy": func(p *pair) { p.probe.Fail(errors.New("disk full")) },
	"finished":  func(p *pair) { p.finish <- nil },
	"failed":    func(p *pair) { p.finish <- errors.New("failed") },
	"transfer":  func(p *pair) { go func() { _, _, _ = p.a.Election().Transfer(context.Background(), "b") }() },
}

// Whoever was told 200 may work for valid_for_ms, also when the term ends in
// between; the next leader starts after that, and soon.
func TestNoLeaderBeforeThePromiseHasLapsed(t *testing.T) {
	for name, end := range plannedEnds {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *stage) {
				p := startPair(t, s, electorhttp.Config{})
				code, l, lapses := p.ask("")
				if code != http.StatusOK || l.ValidFor != (lease/5).Milliseconds() {
					t.Fatalf("%d, %+v", code, l)
				}
				p.ask("?valid_for_ms=100") // a shorter one later changes nothing
				end(p)
				until(t, lease/5, "a answers 503", func() bool {
					code, l, to := p.ask("") // what is promised meanwhile counts, too
					if to.After(lapses) && l.ValidFor > 0 {
						lapses = to
					}
					return code == http.StatusServiceUnavailable && l.ValidFor == 0 && l.Leader == "" && l.Address == ""
				})
				until(t, 2*lease, "b leads", p.b.IsLeader)
				late := p.b.Term().Since().Sub(lapses)
				if late < 0 {
					t.Errorf("b leads %v before the permission of a's worker has lapsed", -late)
				}
				if late > 200*time.Millisecond {
					t.Errorf("b leads only %v after it", late)
				}
			})
		})
	}
}

// What a request may ask for, and what it gets.
func TestRequestedPromise(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		p := startPair(t, s, electorhttp.Config{Promise: time.Second})
		for query, want := range map[string]int64{
			"": 1000, "?valid_for_ms=": 1000, "?valid_for_ms=250": 250, "?valid_for_ms=0": 0, "?valid_for_ms=5000": 1000,
		} {
			if code, l, _ := p.ask(query); code != http.StatusOK || l.ValidFor != want {
				t.Errorf("%q: %d, %d ms, want %d", query, code, l.ValidFor, want)
			}
		}
		for _, query := range []string{"?valid_for_ms=-1", "?valid_for_ms=1s", "?valid_for_ms=9999999999"} {
			if w := ask(p.ha, http.MethodGet, "/leader"+query); w.Code != http.StatusBadRequest {
				t.Errorf("%q: %d %s", query, w.Code, w.Body)
			}
		}
	})
}
