package main

import (
	"context"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/internal/servertest"
)

const (
	benchShards = 64
	benchLease  = 5 * time.Second
)

// What it costs when a fifth member joins four, is stopped, and is killed: how many shards
// change their owner, how long each is without one, and when all are even again.
func BenchmarkRebalance(b *testing.B) {
	var urls []string
	for _, s := range servertest.RedisN(b, 3, servertest.AOF...) {
		urls = append(urls, s.URL())
	}
	c, err := newCrew(b.Context(), "info", b.TempDir(), filepath.Join(b.TempDir(), "invoices.db"), benchLease, benchShards, urls...)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.close)
	s := &demoRun{crew: c}
	four := []string{"m1", "m2", "m3", "m4"}
	for _, name := range four {
		must(b, c.member(name))
	}
	must(b, c.start("shop", "sell"))
	join, stop, death := &cost{}, &cost{}, &cost{}
	join.await(b, s, four...)
	*join = cost{}
	for b.Loop() {
		must(b, c.member("m5"))
		join.await(b, s, append(four, "m5")...)
		began := time.Now()
		must(b, c.stop("m5"))
		stop.awaitSince(b, s, began, four...)

		must(b, c.member("m5"))
		join.await(b, s, append(four, "m5")...)
		c.kill("m5")
		death.await(b, s, four...)
	}
	join.report(b, "join")
	stop.report(b, "stop")
	death.report(b, "death")
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// cost is that of several rebalancings of a kind.
type cost struct {
	times int
	took  []time.Duration // until all were even again
	gaps  []time.Duration // of each shard that moved
}

func (c *cost) await(b *testing.B, s *demoRun, names ...string) {
	b.Helper()
	c.awaitSince(b, s, time.Now(), names...)
}

func (c *cost) awaitSince(b *testing.B, s *demoRun, began time.Time, names ...string) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), waitLimit)
	defer cancel()
	owners, err := s.awaitEven(ctx, names...)
	must(b, err)
	c.times++
	c.took = append(c.took, time.Since(began))
	moved, err := s.moved(ctx)
	must(b, err)
	for _, m := range moved {
		if m.reason != elector.ReasonHandover {
			b.Logf("a term ended by %s, %v without an owner", m.reason, m.gap)
		}
		c.gaps = append(c.gaps, m.gap)
	}
	s.owners = owners
}

func (c *cost) report(b *testing.B, what string) {
	b.ReportMetric(float64(len(c.gaps))/float64(c.times), what+"-moves")
	b.ReportMetric(at(c.took, 0.5), what+"-ms")
	b.ReportMetric(at(c.gaps, 0.5), what+"-gap-ms")
	b.ReportMetric(at(c.gaps, 0.99), what+"-gap-p99-ms")
	b.ReportMetric(at(c.gaps, 1), what+"-gap-max-ms")
}

// at is a quantile in milliseconds.
func at(all []time.Duration, q float64) float64 {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return float64(all[int(q*float64(len(all)-1))].Microseconds()) / 1000
}
