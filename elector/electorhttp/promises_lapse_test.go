package electorhttp_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/electorhttp"
)

// Campaign: the same with Promise and Lapse. The grace is for workers that nothing
// was promised to; one that has stopped ends it.
func TestPromiseAndLapse(t *testing.T) {
	const who, grace = "worker-1234", 3 * time.Second
	for name, tc := range map[string]struct {
		query    string
		stopping bool
		want     time.Duration
	}{
		"promised":                     {"?worker=" + who, false, grace},
		"stopped":                      {"?worker=" + who, true, time.Second},
		"lapsed, then stopped":         {"?valid_for_ms=500&worker=" + who, true, time.Second},
		"stopped, and another did not": {"", true, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *stage) {
				e, h, term := s.campaign("a")
				h.Promise(term)
				ask(h, http.MethodGet, "/leader?valid_for_ms=500&worker="+who)
				ask(h, http.MethodGet, "/leader"+tc.query)
				_ = e.Resign(canceled()) // asks only
				<-term.Done()
				began := time.Now()
				if tc.stopping {
					go func() {
						time.Sleep(time.Second)
						ask(h, http.MethodPost, fmt.Sprintf("/stopped?worker=%s&token=%d", who, term.Token()))
					}()
				}
				stopped := h.Lapse(term, grace)
				if took := time.Since(began); took != tc.want || stopped != tc.stopping {
					t.Errorf("stopped: %v, after %v, want %v", stopped, took, tc.want)
				}
				if err := term.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
	bubble(t, func(t *testing.T, s *stage) { // a term that nothing was promised about
		_, h, term := s.campaign("a")
		defer term.Close(t.Context())
		began := time.Now()
		if stopped := h.Lapse(term, grace); stopped || time.Since(began) != grace {
			t.Errorf("%v after %v", stopped, time.Since(began))
		}
	})
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// More workers than are remembered by name: what they were promised holds too.
func TestManyWorkers(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		p := startPair(t, s, electorhttp.Config{})
		token := p.a.Term().Token()
		for i := range 100 {
			p.ask(fmt.Sprintf("?worker=worker-%d&valid_for_ms=100", 1000+i))
		}
		_, _, until := p.ask("?worker=worker-1099")
		p.stop()
		time.Sleep(time.Millisecond)
		for i := range 100 {
			p.stopped(fmt.Sprintf("worker-%d", 1000+i), token)
		}
		if at := p.next(); at.Before(until) || at.Sub(until) > 200*time.Millisecond {
			t.Errorf("b leads %v after the permission has lapsed", at.Sub(until))
		}
	})
}

// A worker may report as soon as the term has ended, also before its work has seen
// that; a page of another site may not.
func TestReportAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, s *stage) {
		e, h, term := s.campaign("a")
		h.Promise(term)
		ask(h, http.MethodGet, "/leader?worker=worker-1234")
		_ = e.Resign(canceled()) // asks only
		<-term.Done()
		path := fmt.Sprintf("/stopped?worker=worker-1234&token=%d", term.Token())
		if w := ask(h, http.MethodPost, path, "Sec-Fetch-Site", "cross-site"); w.Code != http.StatusForbidden {
			t.Errorf("from another site: %d", w.Code)
		}
		if w := ask(h, http.MethodPost, path); w.Code != http.StatusOK {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if !h.Lapse(term, lease) {
			t.Error("the report did not count")
		}
		_ = term.Close(t.Context())
	})
}
