package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/mandate-dev/mandate/examples/internal/cli"
)

// verify waits until the queue is empty and every event has been handled, and fails if one is lost
// or was queued twice, or if there was nothing to check.
func verify(ctx context.Context, db *database, queueURL string, out io.Writer) error {
	q, err := openQueue(queueURL)
	if err != nil {
		return err
	}
	defer q.close()
	var events, handled, twice, leaders, queued int64
	for limit := time.Now().Add(30 * time.Second); ; cli.Pause(ctx, 100*time.Millisecond) {
		queued, err = q.client.XLen(ctx, queueKey).Result()
		if err == nil {
			err = db.QueryRowContext(ctx, "SELECT (SELECT COUNT(*) FROM events), "+
				"(SELECT COUNT(*) FROM events JOIN handled ON event_id = id), "+
				"(SELECT COUNT(*) FROM handled WHERE twice), "+
				"(SELECT COUNT(DISTINCT token) FROM handled)").Scan(&events, &handled, &twice, &leaders)
		}
		if ctx.Err() != nil || time.Now().After(limit) || err == nil && queued == 0 && handled == events {
			break
		}
	}
	fmt.Fprintf(out, "%d events, fed by %d leaders; lost: %d, queued twice: %d\n", events, leaders, events-handled, twice)
	if err == nil && (events == 0 || handled != events || twice > 0 || queued > 0) {
		err = errors.New("the events were not handled exactly once")
	}
	return err
}
