package lease

import (
	"sync/atomic"
	"time"
)

// Grant is a lease that is held: it counts from the newest anchor. Holding,
// renewing and reading are safe from any goroutine; reading is wait-free.
type Grant struct {
	clock  *Clock
	timing Timing
	anchor atomic.Pointer[Stamp]
}

// NewGrant starts a lease whose request was sent at the given stamp.
func NewGrant(c *Clock, t Timing, sent Stamp) *Grant {
	g := &Grant{clock: c, timing: t}
	g.anchor.Store(&sent)
	if c.granted != nil {
		c.granted(g)
	}
	return g
}

// Renew moves the anchor to the moment before the renewal was sent. An answer
// that arrives after the deadline does not count: the work's context was cancelled
// by then, and an ended lease never revives. The anchor may be that of many leases, and never changes.
func (g *Grant) Renew(sent *Stamp) bool {
	if !g.Valid() {
		return false
	}
	g.anchor.Store(sent)
	return true
}

// Valid reports whether the deadline for the work is still ahead. It reads the
// clock at every call: a process that slept through its lease gets false from
// the first call on.
func (g *Grant) Valid() bool {
	elapsed, ok := g.clock.Since(*g.anchor.Load())
	return ok && elapsed < g.timing.Deadline()
}

// Left is how much of the lease is left until the deadline for the work and
// until its end; zero when it has passed, or when the clocks don't show it.
func (g *Grant) Left() (toDeadline, toEnd time.Duration) {
	elapsed, ok := g.clock.Since(*g.anchor.Load())
	if !ok {
		return 0, 0
	}
	return max(0, g.timing.Deadline()-elapsed), max(0, g.timing.End()-elapsed)
}

// Age is the time since the newest anchor. ok is false when the clocks don't show it.
func (g *Grant) Age() (age time.Duration, ok bool) { return g.clock.Since(*g.anchor.Load()) }

// Past is for how long the deadline for the work has passed; zero while it is ahead.
// ok is false when the clocks don't show it.
func (g *Grant) Past() (past time.Duration, ok bool) {
	elapsed, ok := g.clock.Since(*g.anchor.Load())
	return max(0, elapsed-g.timing.Deadline()), ok
}

// Deadline is the time of the deadline for the work by the clock that Valid
// reads: a step of the wall clock moves it along, and does not shorten or extend
// what is left. Between two renewals it is one and the same time unless a clock
// stepped. When the clocks don't show it, the lease counts as lost: it is now then.
func (g *Grant) Deadline() time.Time {
	sent := *g.anchor.Load()
	elapsed, ok := g.clock.Since(sent)
	now := time.Now()
	if !ok {
		return now
	}
	counted, anchored := now.Add(g.timing.Deadline()-elapsed), sent.t.Add(g.timing.Deadline())
	if near(counted.Sub(anchored)) && near(counted.Round(0).Sub(anchored.Round(0))) {
		return anchored
	}
	return counted
}

// near reports whether d is no more than two clocks that agree, read one after the other, can differ by.
func near(d time.Duration) bool { return d <= 2*agreement && d >= -2*agreement }

// TrueDeadline is the deadline on the machine's own clock, whatever a Warp makes
// the candidate believe: for a simulation's checker, which is to notice that a
// candidate's clocks stand still.
func (g *Grant) TrueDeadline() time.Time { return g.anchor.Load().Time().Add(g.timing.Deadline()) }
