package console

import (
	"context"
	"time"
)

// turns bound how many queries run at a time.
type turns chan struct{}

// limits are how many queries all followers run at a time. Looks: enough to hide the
// round trips, little enough for the Redis that others work with. Roll calls: many, because they
// wait for candidates, which may never answer.
type limits struct{ looks, rolls turns }

func newLimits() limits {
	return limits{make(turns, 16), make(turns, 256)}
}

// query runs one when it is its turn.
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

// sleep is false when ctx ended.
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
