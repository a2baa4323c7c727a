// Package lease has the arithmetic of leases, and the clock that measures them. It imports
// only the standard library and package setting, and is the only code of the project
// that adds durations to the time of a grant: all other code gets from here how long a
// lease still holds.
package lease

import (
	"cmp"
	"errors"
	"sync/atomic"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/setting"
)

// MinLease is the shortest lease that is accepted. Below it the drift
// allowance, the timers of an ordinary operating system (about 1 ms) and the
// round trips of four renewals no longer fit.
const MinLease = 50 * time.Millisecond

// MaxLease is the longest lease that is accepted: a crashed leader would not
// be replaced for that long.
const MaxLease = 24 * time.Hour

// Timing is the schedule of a lease. All times count from the moment before the request that
// obtained or renewed the lease was sent, never from its answer, which may have taken long
// to arrive.
type Timing struct {
	Lease      time.Duration // as requested from Redis (PX)
	StopMargin time.Duration // how long the work has to stop before the lease ends
}

// DefaultLease is the lease if none is configured.
const DefaultLease = 10 * time.Second

// WithDefaults returns t with defaults for the fields that are zero.
func (t Timing) WithDefaults() Timing {
	t.Lease = cmp.Or(t.Lease, DefaultLease)
	t.StopMargin = cmp.Or(t.StopMargin, t.Lease/4)
	return t
}

// RenewEvery returns the time from one renewal to the next.
func (t Timing) RenewEvery() time.Duration { return t.Lease / 4 }

// Drift returns by how much clocks may differ over one lease: 1 % for their rate and 2 ms
// for their granularity (the allowance of the Redlock description).
func (t Timing) Drift() time.Duration { return t.Lease/100 + 2*time.Millisecond }

// End returns when the lease ends, counted from the moment before it was requested.
func (t Timing) End() time.Duration { return t.Lease - t.Drift() }

// Deadline returns when the work's context is cancelled, counted as End is.
func (t Timing) Deadline() time.Duration { return t.End() - t.StopMargin }

// MaxStopMargin returns the longest stop margin that leaves time for two renewals; zero for a
// lease that is not accepted.
func (t Timing) MaxStopMargin() time.Duration {
	if t.Lease < MinLease || t.Lease > MaxLease {
		return 0
	}
	return max(0, t.End()-2*t.RenewEvery())
}

// CallTimeout returns the time-out of one request to one node: a hung request ends before the
// next renewal is due.
func (t Timing) CallTimeout() time.Duration { return t.Lease / 5 }

// farthest is the longest round trip that works with any lease: the time-out for making a
// connection does not depend on the lease (two seconds to dial, for up to three trips with TLS).
const farthest = 500 * time.Millisecond

// MaxRoundTrip returns the longest round trip to a node at which a term survives even the loss
// of all connections at the worst moment, just before the answer to a renewal. That takes four
// round trips: the lost one, one to dial, one to greet (HELLO), and one to renew. TLS and a database
// number cost one more round trip each.
//
// With nodes farther away, up to CallTimeout, elections, renewals and handovers still work, but a
// term is lost with its connections, and when requests overlap and one has to make a connection.
// Beyond that no request is answered in time.
func (t Timing) MaxRoundTrip() time.Duration {
	return min((t.Deadline()-t.RenewEvery())/4, t.CallTimeout()*2/3, farthest)
}

// RetryEvery returns the pause before a renewal with an unknown outcome is tried again. It is
// also how often the deadline timer reads the clock.
func (t Timing) RetryEvery() time.Duration { return t.Lease / 16 }

// Problems returns everything that is wrong with the schedule, each with a remedy; nil if the
// schedule is valid.
func (t Timing) Problems() []error {
	var all []error
	add := func(name, format string, args ...any) { all = append(all, setting.Errorf(name, format, args...)) }
	switch unit := setting.CheckUnit("Lease", t.Lease); {
	case unit != nil:
		all = append(all, unit)
	case t.Lease < MinLease, t.Lease > MaxLease:
		add("Lease", " is %v: choose between %v and %v", t.Lease, MinLease, MaxLease)
	case t.Lease%time.Millisecond != 0:
		add("Lease", " is %v: Redis counts in whole milliseconds", t.Lease)
	}
	if t.StopMargin < 0 {
		add("StopMargin", " is %v: it must not be negative (default: a quarter of the lease)", t.StopMargin)
	}
	if len(all) > 0 {
		return all
	}
	if room := t.Deadline(); room < 2*t.RenewEvery() {
		add("", "the lease leaves no room for two renewals: Lease %v - drift %v - StopMargin %v = %v, less than half the lease: "+
			"make the lease longer, or StopMargin shorter", t.Lease, t.Drift(), t.StopMargin, room)
	}
	return all
}

// Validate returns the Problems as one error.
func (t Timing) Validate() error { return errors.Join(t.Problems()...) }

// Grant is a lease that is held. It counts from its newest anchor. All methods are safe for
// concurrent use, and reading is wait-free.
type Grant struct {
	clock         *Clock
	deadline, end time.Duration // counted from the anchor
	anchor        atomic.Pointer[Stamp]
}

// NewGrant returns a lease whose request was sent at the given stamp.
func NewGrant(c *Clock, t Timing, sent Stamp) *Grant {
	g := &Grant{clock: c, deadline: t.Deadline(), end: t.End()}
	g.anchor.Store(&sent)
	if c.granted != nil {
		c.granted(g)
	}
	return g
}

// Renew moves the anchor to sent, the moment before the renewal was sent. It returns false, and
// changes nothing, if the deadline has passed: the work's context was cancelled by then, and an
// ended lease never becomes valid again.
func (g *Grant) Renew(sent Stamp) bool {
	if !g.Valid() {
		return false
	}
	g.anchor.Store(&sent)
	return true
}

// Valid reports whether the deadline for the work is still ahead. It reads the clock at every
// call: a process that was suspended beyond its deadline gets false from the first call on.
func (g *Grant) Valid() bool {
	elapsed, ok := g.clock.Since(*g.anchor.Load())
	return ok && elapsed < g.deadline
}

// Left returns the time until the deadline for the work, and until the end of the lease; zero
// when it has passed, or when the clocks contradict each other.
func (g *Grant) Left() (toDeadline, toEnd time.Duration) {
	elapsed, ok := g.clock.Since(*g.anchor.Load())
	if !ok {
		return 0, 0
	}
	return max(0, g.deadline-elapsed), max(0, g.end-elapsed)
}

// Age returns the time since the newest anchor. ok is false when the clocks contradict each other.
func (g *Grant) Age() (age time.Duration, ok bool) { return g.clock.Since(*g.anchor.Load()) }

// Past returns how long ago the deadline for the work was; zero while it is ahead. ok is false
// when the clocks contradict each other.
func (g *Grant) Past() (past time.Duration, ok bool) {
	elapsed, ok := g.clock.Since(*g.anchor.Load())
	return max(0, elapsed-g.deadline), ok
}

// TrueDeadline returns the deadline by the machine's own clock, without the Warp: the checker of a
// simulation uses it to notice that a candidate's clocks stand still.
func (g *Grant) TrueDeadline() time.Time { return g.anchor.Load().t.Round(0).Add(g.deadline) }
