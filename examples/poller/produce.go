package main

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/examples/internal/cli"
)

// produce plays the legacy application: it writes events until ctx ends, some late, after others
// with higher ids, and some never, as a transaction that is rolled back. rate is per second, 1 or more.
func (db *database) produce(ctx context.Context, log *slog.Logger, rate int) error {
	var open sync.WaitGroup
	defer open.Wait()
	for ; ctx.Err() == nil; cli.Pause(ctx, time.Second/time.Duration(max(1, rate))) {
		open.Go(func() {
			// What has begun is finished, also when ctx ends.
			if err := db.write(context.WithoutCancel(ctx)); err != nil {
				log.Warn("an event was not written", "error", err) // no other part relies on it
			}
		})
	}
	return nil
}

// write takes an id and then, perhaps after others, writes the event.
func (db *database) write(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	var id int64
	err := db.QueryRowContext(ctx, "UPDATE event_ids SET next = next + 1 RETURNING next - 1").Scan(&id)
	if err != nil {
		return err
	}
	switch chance := rand.Float64(); {
	case chance < 0.02:
		return nil
	case chance < 0.2:
		cli.Pause(ctx, rand.N(2*time.Second))
	}
	_, err = db.ExecContext(ctx, "INSERT INTO events (id, type, payload) VALUES ($1, 'order', '{}')", id)
	return err
}
