package electorhttp_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electorhttp"
	"github.com/mandate-dev/mandate/internal/servertest"
)

// BenchmarkForward has clients send 1,000 requests a second to random replicas, over loopback and a real
// redis-server, while leadership changes hands b.N times. It reports how long the requests took that were
// under way, or held, during a hand-over, and fails when one failed.
func BenchmarkForward(b *testing.B) {
	server := servertest.RedisN(b, 1)[0]
	var replicas []*elector.Elector
	var urls []string
	for i := range 3 {
		client := redis.NewClient(&redis.Options{Addr: server.Addr()})
		b.Cleanup(func() { _ = client.Close() })
		q, err := elector.NewQuorum(client)
		if err != nil {
			b.Fatal(err)
		}
		e, err := elector.New(q, elector.Config{Election: "bench", ID: string(rune('a' + i)), Cooldown: -1, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			b.Fatal(err)
		}
		h, err := electorhttp.New(e, electorhttp.Config{})
		if err != nil {
			b.Fatal(err)
		}
		gate := &elector.Gate{}
		forward, err := h.Forward(gate, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(w, r.Body)
		}), electorhttp.ForwardConfig{})
		if err != nil {
			b.Fatal(err)
		}
		s := httptest.NewServer(forward)
		if err := e.SetAdvertise(s.URL); err != nil {
			b.Fatal(err)
		}
		replicas, urls = append(replicas, e), append(urls, s.URL)
		ctx, stop := context.WithCancel(context.Background())
		var all sync.WaitGroup
		all.Go(func() { _ = e.Run(ctx, gate.Work) })
		all.Go(func() { _ = h.Run(ctx) })
		b.Cleanup(func() { stop(); all.Wait(); s.Close(); q.Close() })
	}
	leader := func() *elector.Elector {
		for {
			for _, e := range replicas {
				if e.IsLeader() {
					return e
				}
			}
			time.Sleep(100 * time.Microsecond)
		}
	}
	leader()

	ctx, cancel := context.WithCancel(context.Background())
	var mu sync.Mutex
	var all, held []time.Duration
	var moved time.Time // when the last hand-over began
	var clients sync.WaitGroup
	const rate, parallel = 1000, 50
	transport := &http.Transport{MaxIdleConnsPerHost: parallel}
	defer transport.CloseIdleConnections()
	for _, url := range urls { // each replica knows who leads: what is measured is how it learns of the next one
		r, _ := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		resp, err := transport.RoundTrip(r)
		if err != nil {
			b.Fatal(err)
		}
		_ = resp.Body.Close()
	}
	for range parallel {
		clients.Go(func() {
			tick := time.NewTicker(parallel * time.Second / rate)
			defer tick.Stop()
			for ctx.Err() == nil {
				<-tick.C
				began := time.Now()
				r, _ := http.NewRequestWithContext(context.Background(), http.MethodPost, urls[rand.IntN(3)], strings.NewReader("x"))
				resp, err := transport.RoundTrip(r)
				if err == nil {
					var body []byte
					body, err = io.ReadAll(resp.Body)
					_ = resp.Body.Close()
					if err == nil && (resp.StatusCode != http.StatusOK || string(body) != "x") {
						err = fmt.Errorf("%s: %s", resp.Status, body)
					}
				}
				if err != nil {
					b.Error(err)
				}
				took := time.Since(began)
				mu.Lock()
				all = append(all, took)
				if !moved.IsZero() && began.Add(took).After(moved) && began.Before(moved.Add(20*time.Millisecond)) {
					held = append(held, took)
				}
				mu.Unlock()
			}
		})
	}
	b.ResetTimer()
	for b.Loop() {
		time.Sleep(100 * time.Millisecond)
		was := leader().Term()
		mu.Lock()
		moved = time.Now()
		mu.Unlock()
		was.Resign()
		for leader().Term().Token() == was.Token() {
			time.Sleep(100 * time.Microsecond)
		}
	}
	b.StopTimer()
	cancel()
	clients.Wait()
	report := func(what string, times []time.Duration) {
		slices.Sort(times)
		for _, q := range []int{50, 99, 100} {
			if len(times) > 0 {
				b.ReportMetric(float64(times[min(len(times)-1, len(times)*q/100)].Microseconds())/1000, fmt.Sprintf("%s-p%d-ms", what, q))
			}
		}
	}
	report("all", all)
	report("moved", held)
	b.ReportMetric(float64(len(all)), "requests")
}
