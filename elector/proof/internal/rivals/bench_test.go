package rivals

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/internal/servertest"
)

const candidates = 3

// term is one candidate's turn: when it began, and what ends it.
type term struct {
	began time.Time
	end   func()
}

// rival is what hands over, and what it took.
type rival struct {
	name  string
	terms <-chan term
	now   term
	took  []time.Duration
}

func (r *rival) handOver() {
	time.Sleep(10 * time.Millisecond) // the former leader is back in the row
	start := time.Now()
	r.now.end()
	r.now = <-r.terms
	r.took = append(r.took, r.now.began.Sub(start))
}

// BenchmarkHandover ends a term and measures the time until the work of the next one
// begins, in turn with each library and each floor, so that a busy moment is the same for all
// of them.
func BenchmarkHandover(b *testing.B) {
	server := servertest.RedisN(b, 1, "--maxclients", "9000")[0]
	ctx, cancel := context.WithCancel(context.Background())
	rivals := []*rival{
		{name: "rueidislock", terms: rueidislockTerms(ctx, b, server)},
		{name: "mandate", terms: mandate(ctx, b, server)},
		{name: "floor-quorum", terms: floorTerms(ctx, b, newVoting(b, server))},
		{name: "floor-scripts", terms: floorTerms(ctx, b, newScripted(b, server))},
		{name: "floor-commands", terms: floorTerms(ctx, b, newPlain(b, server))},
		{name: "floor-rueidis", terms: floorTerms(ctx, b, newPlainRueidis(ctx, b, server))},
	}
	b.Cleanup(cancel) // before the candidates are awaited
	for _, r := range rivals {
		r.now = <-r.terms
	}
	time.Sleep(100 * time.Millisecond) // all of them wait for their turn
	for b.Loop() {
		for _, i := range rand.Perm(len(rivals)) { // what one leaves behind meets all others alike
			rivals[i].handOver()
		}
	}
	report(b, rivals)
}

// report gives the median and the ninth decile of each, and the medians in those of the first.
func report(b *testing.B, rivals []*rival) {
	b.Helper()
	var first time.Duration
	for i, r := range rivals {
		slices.Sort(r.took)
		if i == 0 {
			first = median(r.took)
		}
		b.ReportMetric(float64(median(r.took).Nanoseconds())/1e3, r.name+"-µs")
		b.ReportMetric(float64(r.took[len(r.took)*9/10].Nanoseconds())/1e3, r.name+"-p90-µs")
		b.ReportMetric(float64(median(r.took))/float64(first), r.name+"-x-"+rivals[0].name)
	}
}

func median(sorted []time.Duration) time.Duration { return sorted[len(sorted)/2] }

func mandate(ctx context.Context, b *testing.B, server *servertest.Server) <-chan term {
	terms, done := make(chan term, candidates), make(chan error, candidates)
	for i := range candidates {
		q, err := elector.Open(server.URL())
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = q.Close() })
		e, err := elector.New(q, elector.Config{
			Election: "orders", ID: fmt.Sprint("candidate-", i), Cooldown: time.Millisecond,
			Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		})
		if err != nil {
			b.Fatal(err)
		}
		go func() {
			done <- e.Run(ctx, func(ctx context.Context, t *elector.Term) error {
				terms <- term{time.Now(), t.Resign}
				<-ctx.Done()
				return nil
			})
		}()
	}
	b.Cleanup(func() { await(b, done) })
	return terms
}

func rueidislockTerms(ctx context.Context, b *testing.B, server *servertest.Server) <-chan term {
	terms, done := make(chan term, candidates), make(chan error, candidates)
	for range candidates {
		// As it comes: a lock is two of three keys, on one server.
		l, err := rueidislock.NewLocker(rueidislock.LockerOption{
			ClientOption: rueidis.ClientOption{InitAddress: []string{server.Addr()}},
			KeyValidity:  10 * time.Second,
		})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(l.Close)
		go func() {
			for {
				lock, unlock, err := l.WithContext(ctx, "orders")
				if err != nil {
					done <- nil
					return
				}
				terms <- term{time.Now(), unlock}
				<-lock.Done()
				unlock()
			}
		}()
	}
	b.Cleanup(func() { await(b, done) })
	return terms
}

func await(b *testing.B, done <-chan error) {
	for range candidates {
		if err := <-done; err != nil {
			b.Error(err)
		}
	}
}
