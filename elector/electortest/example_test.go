package electortest_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electortest"
	"github.com/mandate-dev/mandate/health"
)

// biller is the worker under test: while it leads it sends a bill a minute.
type biller struct {
	redis *redis.Client
	beat  *health.Heartbeat
}

func (b *biller) work(ctx context.Context, _ *elector.Term) error {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := b.redis.Incr(ctx, "bills").Err(); err != nil {
				return err
			}
			b.beat.Beat()
		}
	}
}

// testBiller would be your func TestBiller. It takes half a second.
func testBiller(t *testing.T) {
	electortest.Test(t, func(t *testing.T, r *electortest.Redis) {
		b := &biller{redis: r.Client("a"), beat: health.NewHeartbeat(3 * time.Minute)}
		e, err := elector.New(r.Quorum("a"), elector.Config{
			Election: "bills", WorkProbe: b.beat, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- e.Run(ctx, b.work) }()
		defer func() { stop(); <-done }()

		r.Lead(e)
		term := e.Term()
		electortest.Advance(time.Hour + time.Second)
		if n, _ := r.Client("test").Get(ctx, "bills").Int(); n != 60 {
			t.Errorf("%d bills in an hour, want 60", n)
		}

		r.TakeLease(e) // another candidate has the lease for ten seconds
		electortest.Advance(5 * time.Second)
		var ended *elector.Ended
		if e.IsLeader() || !errors.As(term.Err(), &ended) || ended.Reason != elector.ReasonLost {
			t.Errorf("still leading, or ended by something else: %v", term.Err())
		}

		r.Lead(e)
		heal := r.CutOff("a") // from Redis, with all that it writes
		electortest.Advance(10 * time.Second)
		if e.IsLeader() {
			t.Error("leads on, although it is cut off")
		}
		heal()
	})
}

// A worker that is tested in virtual time: an hour of work, a lost lease, and a
// host that is cut off.
func Example() {
	_ = testBiller // below
}

// testWork would be your func TestWork: a work function alone, without an election.
func testWork(t *testing.T) {
	term, end := electortest.NewTerm(t, 7)
	returned := make(chan error, 1)
	go func() {
		returned <- func(ctx context.Context, _ *elector.Term) error { // your work
			<-ctx.Done()
			return nil
		}(term.Context(), term)
	}()
	end(elector.ReasonLost)
	if err := <-returned; err != nil {
		t.Error(err)
	}
}

// A work function that is called with a term that ends when the test says so.
func ExampleNewTerm() {
	_ = testWork // above
}
