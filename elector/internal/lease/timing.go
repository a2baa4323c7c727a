// Package lease is the arithmetic of a lease and the clock it is measured
// with. It imports the standard library and package setting only, and is the only code of the
// project that adds durations to the time of a grant: anything that needs to know how
// long a lease still holds gets it here.
package lease

import (
	"cmp"
	"errors"
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

// MinRenewEvery is the shortest time between renewals that is accepted: each request
// has four fifths of it, and below that a busy machine alone takes longer.
const MinRenewEvery = 10 * time.Millisecond

// Timing is the schedule of a lease. All times count from the moment before
// the request that obtained or renewed the lease was sent (never from its
// answer, which may have been under way for long).
type Timing struct {
	Lease      time.Duration // as requested from Redis (PX)
	RenewEvery time.Duration // from one renewal to the next
	StopMargin time.Duration // what the work gets to stop before the lease ends
}

// DefaultLease is the lease where none is chosen.
const DefaultLease = 10 * time.Second

// WithDefaults fills in what is zero.
func (t Timing) WithDefaults() Timing {
	t.Lease = cmp.Or(t.Lease, DefaultLease)
	t.RenewEvery = cmp.Or(t.RenewEvery, t.Lease/4)
	t.StopMargin = cmp.Or(t.StopMargin, t.Lease/4)
	return t
}

// Drift is what clocks may differ over one lease: 1 % for their rate and 2 ms
// for their granularity (the allowance of the Redlock description).
func (t Timing) Drift() time.Duration { return t.Lease/100 + 2*time.Millisecond }

// End is when the lease ends, counted from the moment before it was requested.
func (t Timing) End() time.Duration { return t.Lease - t.Drift() }

// Deadline is when the work's context is cancelled, counted as End is.
func (t Timing) Deadline() time.Duration { return t.End() - t.StopMargin }

// MaxStopMargin is the longest margin that leaves room for two renewals; zero for a lease
// that is not accepted.
func (t Timing) MaxStopMargin() time.Duration {
	if t.Lease < MinLease || t.Lease > MaxLease {
		return 0
	}
	return max(0, t.End()-2*t.RenewEvery)
}

// CallTimeout bounds one request to one node, so that a hung request is over
// before the next renewal wants to go out.
func (t Timing) CallTimeout() time.Duration { return t.RenewEvery * 4 / 5 }

// farthest is the longest round trip of any use: connections are made in a time that does
// not depend on the lease (two seconds to dial, for up to three trips with TLS).
const farthest = 500 * time.Millisecond

// MaxRoundTrip is the longest round trip to a node at which a term also survives the loss
// of all connections, at the worst moment: just before the answer to a renewal. That
// trip is lost, one dials, one greets (HELLO), and one renews; and the renewal waits for
// its connection for twice its call time-out. TLS and a database number cost a trip more,
// each.
//
// Up to CallTimeout nodes that are farther away elect, renew and hand over too, but lose
// a term with its connections. Farther still no request is answered in time.
func (t Timing) MaxRoundTrip() time.Duration {
	return min((t.Deadline()-t.RenewEvery)/4, t.CallTimeout()*2/3, farthest)
}

// RetryEvery is the pause before a renewal with an unknown outcome is tried
// again, and how often the deadline timer looks at the clock.
func (t Timing) RetryEvery() time.Duration { return t.Lease / 16 }

// Problems lists everything that is wrong with the schedule, each with what to
// do; nil when it can work.
func (t Timing) Problems() []error {
	var all []error
	add := func(name, format string, args ...any) { all = append(all, setting.Errorf(name, format, args...)) }
	if t.Lease < MinLease || t.Lease > MaxLease {
		add("Lease", " is %v: choose between %v and %v", t.Lease, MinLease, MaxLease)
	}
	if t.Lease%time.Millisecond != 0 {
		add("Lease", " is %v: Redis counts in whole milliseconds", t.Lease)
	}
	if t.RenewEvery <= 0 {
		add("RenewEvery", " is %v: it must be positive (default: a quarter of the lease)", t.RenewEvery)
	}
	if t.StopMargin < 0 {
		add("StopMargin", " is %v: it must not be negative (default: a quarter of the lease)", t.StopMargin)
	}
	if len(all) > 0 {
		return all
	}
	if t.RenewEvery < MinRenewEvery {
		add("RenewEvery", " is %v: give at least %v, each request to Redis may take four fifths of it (default: a quarter of the lease)", t.RenewEvery, MinRenewEvery)
	}
	if room := t.Deadline(); room < 2*t.RenewEvery {
		add("", "the lease leaves no room for two renewals: Lease %v - drift %v - StopMargin %v = %v, less than twice RenewEvery (%v): "+
			"make the lease longer, or RenewEvery or StopMargin shorter", t.Lease, t.Drift(), t.StopMargin, room, t.RenewEvery)
	}
	return all
}

// Validate is Problems as one error.
func (t Timing) Validate() error { return errors.Join(t.Problems()...) }
