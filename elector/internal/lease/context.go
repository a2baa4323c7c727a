package lease

import "context"

type clockKey struct{}

// WithClock makes an Elector that runs under ctx use c: how a simulation bends
// the clocks of one candidate without a public setting for it.
func WithClock(ctx context.Context, c *Clock) context.Context {
	return context.WithValue(ctx, clockKey{}, c)
}

// ClockFrom is the clock of WithClock, or nil.
func ClockFrom(ctx context.Context) *Clock { c, _ := ctx.Value(clockKey{}).(*Clock); return c }
