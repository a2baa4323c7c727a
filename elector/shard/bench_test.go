package shard_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/shard"
	"github.com/mandate-dev/mandate/internal/servertest"
)

// BenchmarkRebalance is what it costs on three real nodes when a fifth member joins four, and is
// stopped: how many of 64 shards move, for how long each is without an owner, and when all are even.
func BenchmarkRebalance(b *testing.B) {
	var urls []string
	for _, s := range servertest.RedisN(b, 3, servertest.AOF...) {
		urls = append(urls, s.URL())
	}
	const shards = 64
	l := newLedger(b)
	join := func(id string) (leave func()) {
		q, err := elector.Open(urls...)
		if err != nil {
			b.Fatal(err)
		}
		cfg := shard.Config{Group: "bench", Shards: shards, ID: id, Lease: 5 * time.Second, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
		m, err := shard.New(q, cfg)
		if err != nil {
			b.Fatal(err)
		}
		ctx, stop := context.WithCancel(b.Context())
		done := make(chan error, 1)
		go func() { done <- m.Run(ctx, l.work(id)) }()
		return func() {
			stop()
			if err := <-done; err != nil {
				b.Error(err)
			}
			_ = q.Close()
		}
	}
	even := func(ids ...string) {
		for !l.even(shards, ids...) && b.Context().Err() == nil {
			time.Sleep(time.Millisecond)
		}
	}
	report := func(what string, began time.Time) {
		ms := func(name string, d time.Duration) {
			b.ReportMetric(float64(d.Microseconds())/1e3, what+"-"+name+"-ms")
		}
		ms("even", time.Since(began))
		l.mu.Lock()
		defer l.mu.Unlock()
		slices.Sort(l.gaps)
		b.ReportMetric(float64(len(l.gaps)), what+"-moves")
		ms("gap-p50", l.gaps[len(l.gaps)/2])
		ms("gap-max", l.gaps[len(l.gaps)-1])
		l.gaps = nil
	}
	ids := []string{}
	for i := range 4 {
		ids = append(ids, fmt.Sprint("m", i))
		defer join(ids[i])()
	}
	even(ids...)
	for b.Loop() {
		l.mu.Lock()
		l.gaps = nil
		l.mu.Unlock()
		began := time.Now()
		leave := join("m4")
		even(append(ids, "m4")...)
		report("join", began)
		began = time.Now()
		leave()
		even(ids...)
		report("stop", began)
	}
}
