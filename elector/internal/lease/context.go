package lease

import (
	"context"
	"time"
)

type (
	clockKey struct{}
	beginKey struct{}
)

// WithClock makes an Elector that runs under the returned context use c. A simulation changes the
// clocks of one candidate this way, without a public setting.
func WithClock(ctx context.Context, c *Clock) context.Context {
	return context.WithValue(ctx, clockKey{}, c)
}

// WithBegin makes an Elector that runs under the returned context count as running since begin, and as
// one of a member of a group of shards. A member makes an Elector for each shard that it is given. By its
// own age that Elector would take nodes that have just lost all data for the first start of the election.
func WithBegin(ctx context.Context, begin Stamp) context.Context {
	return context.WithValue(ctx, beginKey{}, begin)
}

// BeginFrom returns the stamp of WithBegin; false: there is none.
func BeginFrom(ctx context.Context) (Stamp, bool) {
	s, ok := ctx.Value(beginKey{}).(Stamp)
	return s, ok
}

// ClockFrom returns the clock of WithClock, or nil.
func ClockFrom(ctx context.Context) *Clock { c, _ := ctx.Value(clockKey{}).(*Clock); return c }

// Sleep waits for d. It returns false if ctx ends before.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
