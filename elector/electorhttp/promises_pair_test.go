package electorhttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electorhttp"
	"github.com/mandate-dev/mandate/health"
)

// pair is a leader whose answers a worker relies on, and the candidate that leads
// after it.
type pair struct {
	t         *testing.T
	a, b      *elector.Elector
	ha        *electorhttp.Handler
	stop      context.CancelFunc // shuts a down
	finish    chan error         // ends a's work
	mu        sync.Mutex
	unhealthy error
}

func startPair(t *testing.T, s *stage, cfg electorhttp.Config) *pair {
	t.Helper()
	p := &pair{t: t, finish: make(chan error)}
	var err error
	p.a, err = elector.New(s.redis.Quorum("a"), elector.Config{
		Election: "e", ID: "a", Lease: lease, Logger: slog.New(slog.DiscardHandler), ProbeSettings: health.Settings{Failures: 1},
		RestartDelay: lease, // b shall lead after it
		Probe: health.Func(func(context.Context) error {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.unhealthy
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	if p.ha, err = electorhttp.New(p.a, cfg); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = p.a.Run(ctx, p.ha.Work(func(ctx context.Context, _ *elector.Term) error {
			select {
			case <-ctx.Done():
				return nil
			case err := <-p.finish:
				return err
			}
		}))
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	until(t, "a leads", 2*lease, p.a.IsLeader)
	p.b, _ = s.start("b", electorhttp.Config{})
	time.Sleep(lease)
	return p
}

// ask is a request of a worker, and until when it may work.
func (p *pair) ask(query string) (code int, l electorhttp.Leadership, until time.Time) {
	p.t.Helper()
	asked := time.Now()
	w := ask(p.ha, http.MethodGet, "/leader"+query)
	if err := json.Unmarshal(w.Body.Bytes(), &l); err != nil {
		p.t.Fatal(err)
	}
	return w.Code, l, asked.Add(time.Duration(l.ValidFor) * time.Millisecond)
}

func (p *pair) stopped(worker string, token uint64) int {
	return ask(p.ha, http.MethodPost, fmt.Sprintf("/stopped?worker=%s&token=%d", worker, token)).Code
}

// next waits until b leads.
func (p *pair) next() time.Time {
	p.t.Helper()
	until(p.t, "b leads", 2*lease, p.b.IsLeader)
	return p.b.Term().Since()
}

var plannedEnds = map[string]func(*pair){
	"resigned":  func(p *pair) { go func() { _ = p.a.Resign(context.Background()) }() },
	"shut down": func(p *pair) { p.stop() },
	"unhealthy": func(p *pair) { p.mu.Lock(); p.unhealthy = errors.New("disk full"); p.mu.Unlock() },
	"finished":  func(p *pair) { p.finish <- nil },
	"failed":    func(p *pair) { p.finish <- errors.New("failed") },
	"transfer":  func(p *pair) { go func() { _, _ = p.a.Election().Transfer(context.Background(), "b") }() },
}
