//go:build unix

package main

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/internal/servertest"
)

const (
	benchRows   = 20000
	benchRounds = 9 // medians of so many, also when the benchmark is asked for one
)

// From the table to the stream: by the elected leader, under the fence, and by the
// same loop without either, in turn.
func BenchmarkFeed(b *testing.B) {
	b.Run("sqlite", func(b *testing.B) { benchFeed(b, filepath.Join(b.TempDir(), "legacy.db")) })
	b.Run("postgres", func(b *testing.B) { benchFeed(b, servertest.Postgres(b)) })
}

func benchFeed(b *testing.B, where string) {
	db, err := openDatabase(b.Context(), where)
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	if err := db.inTx(b.Context(), func(tx *sql.Tx) error {
		for id := range benchRows {
			if _, err := tx.Exec("INSERT INTO events (id, type, payload) VALUES ($1, 'order', $2)", id+1, fmt.Sprintf(`{"amount":%d}`, id)); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		b.Fatal(err)
	}
	addr := servertest.Redis(b).Addr()
	f := newFeeder(b, db, addr, "a")
	f.batch = 500
	term := benchTerm(b, addr)

	var plain, fenced, slower []float64
	for i := range 3 * max(b.N, benchRounds) {
		p := drainRate(b, f, func(n int, p **position) (bool, error) { return plainStep(b.Context(), f, n, p) })
		l := drainRate(b, f, func(n int, p **position) (bool, error) { return f.step(b.Context(), term.Token(), n, p) })
		if i > 0 { // the first is for the caches
			plain, fenced, slower = append(plain, p), append(fenced, l), append(slower, 100*(p-l)/p)
		}
	}
	if !term.Valid() {
		b.Fatal("the leadership was lost on the way: ", term.Err())
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(plain), "plain-events/s")
	b.ReportMetric(median(fenced), "leader-events/s")
	b.ReportMetric(median(slower), "%slower")
}

// benchTerm leads an election on the same Redis, renewing beside the feeding.
func benchTerm(b *testing.B, addr string) *elector.Term {
	q, err := elector.Open("redis://" + addr)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { q.Close() })
	e, err := elector.New(q, elector.Config{Election: "poller", Lease: chaosLease, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	term, err := e.Campaign(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = term.Close(context.Background()) })
	return term
}

// drainRate feeds the whole table and returns events per second.
func drainRate(b *testing.B, f *feeder, step func(n int, p **position) (bool, error)) float64 {
	b.Helper()
	if err := f.queue.client.Del(b.Context(), queueKey, checkpointKey).Err(); err != nil {
		b.Fatal(err)
	}
	var p *position
	began := time.Now()
	for n, more := 1, true; more; n++ {
		var err error
		if more, err = step(n, &p); err != nil {
			b.Fatal(err)
		}
	}
	took := time.Since(began)
	if n := f.queue.client.XLen(b.Context(), queueKey).Val(); n != benchRows {
		b.Fatalf("%d events were fed, want %d", n, benchRows)
	}
	return benchRows / took.Seconds()
}

var plainScript = redis.NewScript(feedLua)

// plainStep is feeder.step without a fence.
func plainStep(ctx context.Context, f *feeder, n int, p **position) (more bool, err error) {
	if *p == nil {
		*p = &position{clock: clockAt(time.Now().UnixMilli())}
	}
	at := (*p).clock.now()
	r, err := f.db.read(ctx, (*p).checkpoint, f.batch)
	if err != nil {
		return false, err
	}
	r.at = at
	next := (*p).checkpoint.after(r, f.late)
	name := fmt.Sprint("plain/", n)
	args, err := feedArgs(1, f.worker, name, *p, next, r.rows)
	if err != nil {
		return false, err
	}
	answer, err := plainScript.Run(ctx, f.queue.client, feedKeys, args...).Slice()
	if err != nil || answer[0] != "fed" {
		return false, fmt.Errorf("%v, %w", answer, err)
	}
	(*p).checkpoint, (*p).batch, (*p).clock = next, name, clockAt(answer[1].(int64))
	return len(r.rows) == f.batch, nil
}

// How long nobody feeds, from the last poll of one worker to the first of the
// next, by the queue's clock: three workers as processes on three Redis nodes.
func BenchmarkWithoutFeeder(b *testing.B) {
	b.Run("graceful", func(b *testing.B) { benchHandOver(b, syscall.SIGTERM) })
	b.Run("killed", func(b *testing.B) { benchHandOver(b, syscall.SIGKILL) })
}

func benchHandOver(b *testing.B, sig syscall.Signal) {
	c := newCrew(b, filepath.Join(b.TempDir(), "legacy.db"))
	const interval = 20 * time.Millisecond
	for _, name := range []string{"worker-1", "worker-2", "worker-3"} {
		c.start(name, c.work(name, "--interval", interval.String())...)
	}
	leader := c.leaderAfter(0)
	for range max(b.N, benchRounds) {
		time.Sleep(700 * time.Millisecond) // the others are waiting by now
		p := c.procs[leader.Candidate]
		_ = p.cmd.Process.Signal(sig)
		<-p.done
		next := c.leaderAfter(leader.Token)
		c.start(leader.Candidate, p.args...)
		leader = next
	}
	time.Sleep(500 * time.Millisecond) // the last one has polled
	q, err := openQueue(c.urls[0])
	if err != nil {
		b.Fatal(err)
	}
	defer q.close()
	var r report
	if err := r.readTerms(b.Context(), q); err != nil {
		b.Fatal(err)
	}
	var gaps []float64
	for _, t := range r.terms[1:] {
		gaps = append(gaps, float64(t.gap.Milliseconds()))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(chaosLease.Milliseconds()), "lease-ms")
	b.ReportMetric(median(gaps), "gap-ms")
	b.ReportMetric(slices.Max(gaps), "gap-max-ms")
}

func median(all []float64) float64 {
	all = slices.Clone(all)
	slices.Sort(all)
	return all[len(all)/2]
}
