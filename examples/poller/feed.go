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

// feeder is what the elected worker does: poll the table and feed the queue.
type feeder struct {
	db     *database
	queue  *queue
	beat   *health.Heartbeat
	log    *slog.Logger
	worker string

	interval   time.Duration // between polls of a table without news
	batch      int
	late       time.Duration // how long after a higher id a row may commit
	stallAfter time.Duration // hang on purpose, so long into the term
}

// lead polls until the term ends.
func (f *feeder) lead(ctx context.Context, term *elector.Term) error {
	var stall <-chan time.Time
	if f.stallAfter > 0 {
		timer := time.NewTimer(f.stallAfter)
		defer timer.Stop()
		stall = timer.C
	}
	var p *position // nil: to be loaded
	for n := 1; ; n++ {
		more, err := f.step(ctx, term.Token(), n, &p)
		wait := f.interval
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, fence.ErrStale):
			// The queue knows it before this process does. Returning ends the term.
			f.log.Warn("another worker was elected", "error", err)
			return nil
		case err != nil:
			f.log.Warn("polling failed", "error", err)
			p = nil
		default:
			// Progress, and only progress: a loop that fails again and again must not
			// look alive.
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

// step is one poll: read the table, feed what it brought. An empty batch is sent
// too: it shows a stale leader, and leaves the time of the last poll for verify.
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
	// The name is new at every attempt, so that no two requests are taken for one.
	name := fmt.Sprintf("%d/%d", token, n)
	if err := f.queue.feed(ctx, token, f.worker, name, *p, next, r.rows); err != nil {
		return false, err
	}
	if len(r.rows) > 0 {
		f.log.Debug("fed", "events", len(r.rows), "high", next.High, "gaps", len(next.Gaps))
	}
	return len(r.rows) == f.batch, nil
}
