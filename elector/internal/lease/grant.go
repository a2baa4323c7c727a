package lease

import (
	"sync/atomic"
	"time"
)

// Grant is a lease that is held. It counts from its newest anchor. All methods are safe for
// concurrent use, and reading is wait-free.
type Grant struct {
	clock  *Clock
	timing Timing
	anchor atomic.Pointer[Stamp]
}

// NewGrant returns a lease whose request was sent at the given stamp.
func NewGrant(c *Clock, t Timing, sent Stamp) *Grant {
	g := &Grant{clock: c, timing: t}
	g.anchor.Store(&sent)
	if c.granted != nil {
		c.granted(g)
	}
	return g
}

// Renew moves the anchor to sent, the moment before the renewal was sent. It returns false, and
// changes nothing, if the deadline has passed: the work's context was cancelled by then, and an
// ended lease never becomes valid again. Many leases may share sent, which must never change.
func (g *Grant) Renew(sent *Stamp) bool {
	if !g.Valid() {
		return false
	}
	g.anchor.Store(sent)
	return true
}

// Valid reports whether the deadline for the work is still ahead. It reads the clock at every
// call: a process that was suspended beyond its deadline gets false from the first call on.
func (g *Grant) Valid() bool {
	elapsed, ok := g.clock.Since(*g.anchor.Load())
	return ok && elapsed < g.timing.Deadline()
}

// Left returns the time until the deadline for the work, and until the end of the lease; zero
// when it has passed, or when the clocks contradict each other.
func (g *Grant) Left() (toDeadline, toEnd time.Duration) {
	elapsed, ok := g.clock.Since(*g.anchor.Load())
	if !ok {
		return 0, 0
	}
	return max(0, g.timing.Deadline()-elapsed), max(0, g.timing.End()-elapsed)
}

// Age returns the time since the newest anchor. ok is false when the clocks contradict each other.
func (g *Grant) Age() (age time.Duration, ok bool) { return g.clock.Since(*g.anchor.Load()) }

// Past returns how long ago the deadline for the work was; zero while it is ahead. ok is false
// when the clocks contradict each other.
func (g *Grant) Past() (past time.Duration, ok bool) {
	elapsed, ok := g.clock.Since(*g.anchor.Load())
	return max(0, elapsed-g.timing.Deadline()), ok
}

// TrueDeadline returns the deadline by the machine's own clock, without the Warp: the checker of a
// simulation uses it to notice that a candidate's clocks stand still.
func (g *Grant) TrueDeadline() time.Time { return g.anchor.Load().Time().Add(g.timing.Deadline()) }
