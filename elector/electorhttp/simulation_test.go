package electorhttp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electorhttp"
	"github.com/mandate-dev/mandate/elector/electortest"
	clocks "github.com/mandate-dev/mandate/elector/internal/lease"
)

// player is a candidate whose clocks step, and a worker that obeys docs/http.md to
// the letter.
type player struct {
	id    string
	warp  *clocks.Warp
	mu    sync.Mutex
	e     *elector.Elector
	h     *electorhttp.Handler
	stop  context.CancelFunc
	until time.Time // it may work up to here
	token uint64
}

// field is all of them. No two may work at one time.
type field struct {
	t       *testing.T
	redis   *electortest.Redis
	rnd     *rand.Rand
	players []*player
	beyond  time.Duration // sabotage: workers go on for longer than they may

	mu         sync.Mutex
	violations []string
	terms      map[uint64]bool
}

// live runs a candidate until it is stopped, again and again.
func (f *field) live(ctx context.Context, p *player, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 2))
	for ctx.Err() == nil {
		e, err := elector.New(f.redis.Quorum(p.id), elector.Config{
			Election: "e", ID: p.id, Lease: lease, Cooldown: time.Second, RestartDelay: time.Second, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			panic(err)
		}
		h, err := electorhttp.New(e, electorhttp.Config{})
		if err != nil {
			panic(err)
		}
		life, stop := context.WithCancel(clocks.WithClock(ctx, clocks.NewClock(p.warp)))
		p.mu.Lock()
		p.e, p.h, p.stop = e, h, stop
		p.mu.Unlock()
		lasts := time.Duration(rnd.Int64N(int64(20 * lease)))
		_ = e.Run(life, h.Work(func(ctx context.Context, _ *elector.Term) error {
			select {
			case <-ctx.Done():
			case <-time.After(lasts):
			}
			return nil
		}))
		stop()
		electortest.Advance(time.Duration(rnd.Int64N(int64(lease))))
	}
}

// work is the worker.
func (f *field) work(ctx context.Context, p *player, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 3))
	for ctx.Err() == nil {
		p.mu.Lock()
		h := p.h
		p.mu.Unlock()
		if h == nil {
			time.Sleep(time.Millisecond)
			continue
		}
		asked := time.Now()
		w := ask(h, http.MethodGet, "/leader")
		var l electorhttp.Leadership
		if json.Unmarshal(w.Body.Bytes(), &l) != nil {
			panic(w.Body.String())
		}
		if valid := time.Duration(l.ValidFor) * time.Millisecond; w.Code == http.StatusOK && valid > 0 {
			f.may(p, l.Token, asked.Add(valid+f.beyond))
			time.Sleep(time.Duration(rnd.Float64() * 1.2 * float64(valid)))
		} else {
			time.Sleep(50 * time.Millisecond)
		}
	}
}

// may notes that a worker works from now on until then, and looks at the others.
func (f *field) may(p *player, token uint64, until time.Time) {
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.terms[token] = true
	for _, o := range f.players {
		o.mu.Lock()
		if o == p {
			p.until, p.token = until, token
		} else if left := o.until.Sub(now); left > 0 {
			f.violations = append(f.violations, fmt.Sprintf("%s works with token %d, and %s (token %d) may for %v more", p.id, token, o.id, o.token, left))
		}
		o.mu.Unlock()
	}
}

// disturb ends terms, cuts candidates off, and steps their wall clocks.
func (f *field) disturb(ctx context.Context) {
	for ctx.Err() == nil {
		time.Sleep(time.Duration(f.rnd.Int64N(int64(lease / 2))))
		p := f.players[f.rnd.IntN(len(f.players))]
		p.mu.Lock()
		e, stop := p.e, p.stop
		p.mu.Unlock()
		switch f.rnd.IntN(5) {
		case 0:
			if e != nil {
				_ = e.Resign(canceled())
			}
		case 1:
			if stop != nil {
				stop()
			}
		case 2:
			heal := f.redis.CutOff(p.id)
			time.Sleep(time.Duration(f.rnd.Int64N(int64(2 * lease))))
			heal()
		case 3:
			p.warp.Wall.Add(int64(time.Hour) * (2*f.rnd.Int64N(2) - 1))
		case 4:
			p.warp.NoBoot.Store(!p.warp.NoBoot.Load())
		}
	}
}

// simulate plays for a while of virtual time.
func simulate(t *testing.T, seed uint64, lasts, beyond time.Duration) (f *field) {
	t.Helper()
	electortest.Test(t, func(t *testing.T, r *electortest.Redis) {
		f = &field{t: t, redis: r, rnd: rand.New(rand.NewPCG(seed, 1)), beyond: beyond, terms: map[uint64]bool{}}
		ctx, cancel := context.WithTimeout(context.Background(), lasts)
		var all sync.WaitGroup
		for n := range 3 {
			f.players = append(f.players, &player{id: string(rune('a' + n)), warp: &clocks.Warp{}})
		}
		for n, p := range f.players {
			all.Go(func() { f.live(ctx, p, seed+uint64(n)) })
			all.Go(func() { f.work(ctx, p, seed+uint64(n)) })
		}
		f.disturb(ctx)
		cancel()
		all.Wait()
		synctest.Wait()
	})
	return f
}

// TestPromisesInTheSimulation: three candidates with workers that obey, in virtual
// time; terms end in all ways, and the candidates' clocks step by an hour. No two
// workers may work at one time. MANDATE_PROMISE_SEEDS=n plays more seeds.
func TestPromisesInTheSimulation(t *testing.T) {
	seeds, err := strconv.Atoi(os.Getenv("MANDATE_PROMISE_SEEDS"))
	if err != nil {
		seeds = 3
	}
	terms := 0
	for seed := range uint64(seeds) {
		f := simulate(t, seed, 5*time.Minute, 0)
		terms += len(f.terms)
		for _, v := range f.violations {
			t.Errorf("seed %d: %s", seed, v)
		}
	}
	t.Logf("%d terms", terms)
	if terms < 5*seeds {
		t.Errorf("only %d terms", terms)
	}
}

// Workers that go on for longer than they may are noticed.
func TestPromisesInTheSimulationSabotaged(t *testing.T) {
	if f := simulate(t, 1, 5*time.Minute, time.Second); len(f.violations) == 0 {
		t.Error("nobody notices workers that go on for a second")
	}
}
