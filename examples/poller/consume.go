package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/examples/internal/cli"
	"github.com/mandate-dev/mandate/examples/internal/sqlite"
	"github.com/mandate-dev/mandate/health"
)

// consumer is the part that runs in every worker: it takes entries from the queue and handles them.
type consumer struct {
	db         *database
	queue      *queue
	beat       *health.Heartbeat
	log        *slog.Logger
	worker     string
	claimAfter time.Duration // idle time after which a delivered entry counts as abandoned
}

// consumeBatch is how many entries are handled in one transaction.
const consumeBatch = 100

// run handles entries until ctx ends.
func (c *consumer) run(ctx context.Context) error {
	nextClaim := time.Now()
	for ctx.Err() == nil {
		entries, err := c.take(ctx, &nextClaim)
		if err == nil && len(entries) > 0 {
			err = c.handle(ctx, entries)
		}
		c.beat.Beat() // also when the database is down: a restart would not fix that
		if err != nil && ctx.Err() == nil {
			c.log.Warn("consuming failed", "error", err)
			if redis.HasErrorPrefix(err, "NOGROUP") {
				_ = c.queue.createGroup(ctx) // if this fails, the next round reports it
			}
			cli.Pause(ctx, 200*time.Millisecond)
		}
	}
	return nil
}

// take returns new entries, or entries that a dead consumer has left.
func (c *consumer) take(ctx context.Context, nextClaim *time.Time) ([]redis.XMessage, error) {
	if now := time.Now(); now.After(*nextClaim) {
		entries, _, err := c.queue.client.XAutoClaim(ctx, &redis.XAutoClaimArgs{
			Stream: queueKey, Group: group, Consumer: c.worker, MinIdle: c.claimAfter, Start: "0-0", Count: consumeBatch,
		}).Result()
		if err != nil {
			return nil, err
		}
		if len(entries) > 0 {
			c.log.Info("claimed what another consumer left behind", "entries", len(entries))
			return entries, nil
		}
		*nextClaim = now.Add(c.claimAfter / 2)
	}
	streams, err := c.queue.client.XReadGroup(ctx, &redis.XReadGroupArgs{
		Group: group, Consumer: c.worker, Streams: []string{queueKey, ">"}, Count: consumeBatch, Block: 500 * time.Millisecond,
	}).Result()
	if errors.Is(err, redis.Nil) { // nothing came
		return nil, nil
	}
	if err != nil || len(streams) == 0 {
		return nil, err
	}
	return streams[0].Messages, nil
}

// handle records the entries, and then removes them from the queue. After a crash between the two
// they are delivered again, and recording them again has no effect. The effects of handling belong
// in the same transaction.
func (c *consumer) handle(ctx context.Context, entries []redis.XMessage) error {
	// Finish what was taken even during a shutdown, so that no other consumer has to claim it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
	defer cancel()
	err := sqlite.InTx(ctx, c.db.DB, func(tx *sql.Tx) error {
		for _, e := range entries {
			if err := c.record(ctx, tx, e); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("recording: %w", err)
	}
	ids := make([]string, len(entries))
	for i, e := range entries {
		ids[i] = e.ID
	}
	_, err = c.queue.client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.XAck(ctx, queueKey, group, ids...)
		p.XDel(ctx, queueKey, ids...)
		return nil
	})
	return err
}

func (c *consumer) record(ctx context.Context, tx *sql.Tx, entry redis.XMessage) error {
	text, _ := entry.Values["id"].(string)
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		// Delivering this entry again would not help: log it and drop it.
		c.log.Error("an entry without an event's id", "entry", entry.ID)
		return nil //nolint:nilerr // see above
	}
	// In another entry than before, the event was queued twice; in the same, delivered again.
	_, err = tx.ExecContext(ctx, "INSERT INTO handled (event_id, entry, token) VALUES ($1, $2, $3) "+
		"ON CONFLICT (event_id) DO UPDATE SET twice = handled.twice OR handled.entry <> excluded.entry", id, entry.ID, entry.Values["token"])
	return err
}
