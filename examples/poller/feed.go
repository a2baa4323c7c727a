package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/fence"
	"github.com/mandate-dev/mandate/health"
)

const (
	pollInterval = 100 * time.Millisecond // pause after a poll that found fewer rows than a batch
	feedBatch    = 500                    // events per poll, and per round trip to the queue
)

// feeder is the part that runs only in the elected worker: it polls the table and feeds the queue.
type feeder struct {
	db        *database
	queue     *queue
	beat      *health.Heartbeat
	log       *slog.Logger
	late      time.Duration // how long after a higher id a row may commit
	hangAfter time.Duration // hang on purpose this long into the term; 0: never
}

// lead polls until the term ends.
func (f *feeder) lead(ctx context.Context, term *elector.Term) error {
	began := time.Now()
	var p *position // nil: must be loaded
	for n := 1; ; n++ {
		if f.hangAfter > 0 && time.Since(began) > f.hangAfter {
			f.log.Warn("hanging, as --hang-after says")
			<-ctx.Done()
			f.hangAfter = 0 // once
		}
		next, more, err := f.step(ctx, term.Token(), n, p)
		wait := pollInterval
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the end of the term explains the failed step
		case errors.Is(err, fence.ErrStale):
			// The queue has learned of the new leader before this process. Returning ends the term.
			f.log.Warn("another worker was elected", "error", err)
			return nil
		case err != nil:
			f.log.Warn("polling failed", "error", err)
		case more:
			wait = 0
		}
		if err == nil {
			// Beat only after progress: a loop that fails repeatedly must not look alive.
			f.beat.Beat()
		}
		p = next
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// step is one poll: it reads the table from position p and feeds the rows found. It also sends an
// empty batch, which detects that this leader is stale. It returns the new position, nil on errors.
func (f *feeder) step(ctx context.Context, token uint64, n int, p *position) (next *position, more bool, err error) {
	if p == nil {
		if p, err = f.queue.load(ctx, token); err != nil {
			return nil, false, err
		}
	}
	// Leaders run on different machines, so the ages of gaps are measured by the queue's clock.
	at, err := f.queue.client.Time(ctx).Result()
	if err != nil {
		return nil, false, err
	}
	r, err := f.db.read(ctx, p.checkpoint, feedBatch)
	if err != nil {
		return nil, false, fmt.Errorf("reading the table: %w", err)
	}
	r.at = at
	// The name is new for every attempt, so that two requests can't be confused.
	next = &position{p.checkpoint.after(r, f.late), fmt.Sprintf("%d/%d", token, n)}
	if err := f.queue.feed(ctx, token, p, next, r.rows); err != nil {
		return nil, false, err
	}
	return next, len(r.rows) == feedBatch, nil
}
