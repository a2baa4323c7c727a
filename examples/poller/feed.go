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

// feeder is the part that runs only in the elected worker: it polls the table and feeds the queue.
type feeder struct {
	db     *database
	queue  *queue
	beat   *health.Heartbeat
	log    *slog.Logger
	worker string

	interval   time.Duration // pause after a poll that found fewer rows than a batch
	batch      int
	late       time.Duration // how long after a higher id a row may commit
	stallAfter time.Duration // hang on purpose this long into the term; 0: never
}

// lead polls until the term ends.
func (f *feeder) lead(ctx context.Context, term *elector.Term) error {
	var stall <-chan time.Time
	if f.stallAfter > 0 {
		timer := time.NewTimer(f.stallAfter)
		defer timer.Stop()
		stall = timer.C
	}
	var p *position // nil: must be loaded
	for n := 1; ; n++ {
		more, err := f.step(ctx, term.Token(), n, &p)
		wait := f.interval
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, fence.ErrStale):
			// The queue has learned of the new leader before this process. Returning ends the term.
			f.log.Warn("another worker was elected", "error", err)
			return nil
		case err != nil:
			f.log.Warn("polling failed", "error", err)
			p = nil
		default:
			// Beat only after progress: a loop that fails repeatedly must not look alive.
			f.beat.Beat()
			if more {
				wait = 0
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-stall:
			f.log.Warn("stalling, as --stall-after says")
			<-ctx.Done()
			return nil
		case <-time.After(wait):
		}
	}
}

// step is one poll: it reads the table and feeds the rows found. It also sends an empty batch,
// which detects that this leader is stale, and records the time of the last poll for verify.
func (f *feeder) step(ctx context.Context, token uint64, n int, p **position) (more bool, err error) {
	if *p == nil {
		loaded, err := f.queue.load(ctx, token)
		if err != nil {
			return false, err
		}
		*p = &loaded
	}
	at := (*p).clock.now()
	r, err := f.db.read(ctx, (*p).checkpoint, f.batch)
	if err != nil {
		return false, fmt.Errorf("reading the table: %w", err)
	}
	r.at = at
	next := (*p).checkpoint.after(r, f.late)
	if len(next.Gaps) >= maxGaps && len((*p).checkpoint.Gaps) < maxGaps {
		f.log.Warn("too many ids are missing: waiting for them before reading on", "gaps", len(next.Gaps), "late", f.late)
	}
	// The name is new for every attempt, so that two requests can't be confused.
	name := fmt.Sprintf("%d/%d", token, n)
	if err := f.queue.feed(ctx, token, f.worker, name, *p, next, r.rows); err != nil {
		return false, err
	}
	if len(r.rows) > 0 {
		f.log.Debug("fed", "events", len(r.rows), "high", next.High, "gaps", len(next.Gaps))
	}
	return len(r.rows) == f.batch, nil
}
