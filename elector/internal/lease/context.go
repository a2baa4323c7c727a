package lease

import "context"

type clockKey struct{}

// WithClock makes an Elector that runs under the returned context use c. A simulation changes the
// clocks of one candidate this way, without a public setting.
func WithClock(ctx context.Context, c *Clock) context.Context {
	return context.WithValue(ctx, clockKey{}, c)
}

// ClockFrom returns the clock of WithClock, or nil.
func ClockFrom(ctx context.Context) *Clock { c, _ := ctx.Value(clockKey{}).(*Clock); return c }
