package console

import (
	"context"
	"time"
)

// turns is a semaphore that bounds how many queries run concurrently.
type turns chan struct{}

// limits bound the concurrent queries of all followers. Reads of the status: enough to hide the
// round trips, and few enough not to disturb other users of the Redis nodes. Roll calls: many,
// because they wait for candidates, which may never answer.
type limits struct{ looks, rolls turns }

func newLimits() limits {
	return limits{make(turns, 16), make(turns, 256)}
}

// query calls run when fewer queries than the limit are running. It does not if ctx ends before.
func (t turns) query(ctx context.Context, within time.Duration, run func(context.Context)) {
	select {
	case t <- struct{}{}:
		defer func() { <-t }()
	case <-ctx.Done():
		return
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	run(ctx)
}

// sleep waits for d. It returns false if ctx ends before.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
