package lease

import (
	"sync/atomic"
	"time"
)

// agreement is how far the monotonic and the wall clock may differ over one
// lease and still be believed without reading a third clock. It is part of the
// drift allowance.
const agreement = time.Millisecond

// Clock measures how much time has passed, across suspends and clock steps. The
// zero value is the machine's clock; a Warp makes it lie, for tests.
type Clock struct {
	warp    *Warp
	granted func(Held) // may be nil
}

// NewClock returns the machine's clock, seen through w when w is not nil.
func NewClock(w *Warp) *Clock { return &Clock{warp: w} }

// ClockOf is NewClock for one election of a process: granted gets each lease that is counted by this
// clock, for a checker that knows the true time.
func ClockOf(w *Warp, granted func(Held)) *Clock { return &Clock{warp: w, granted: granted} }

// SameAs reports whether two clocks always show the same.
func (c *Clock) SameAs(other *Clock) bool { return c.warp == other.warp }

// Warp lets a simulation bend the clocks of one candidate. Safe for concurrent
// use. Gate, if set, is called before every reading: a gate that blocks pauses
// everything that looks at the clock, as SIGSTOP does.
type Warp struct {
	Mono, Wall, Boot atomic.Int64 // nanoseconds added to each clock
	NoBoot           atomic.Bool  // as on systems without CLOCK_BOOTTIME
	Gate             func()
}

// Held is what that checker reads of a Grant.
type Held interface{ TrueDeadline() time.Time }

// Stamp is one reading of all clocks: the anchor that a lease counts from.
type Stamp struct {
	t          time.Time // wall and monotonic in one reading
	boot       int64     // CLOCK_BOOTTIME in ns; 0: not known
	mono, wall int64     // the warp's part, at the time of the reading
}

// Time is the stamp's wall time, for people.
func (s Stamp) Time() time.Time { return s.t.Round(0) }

// IsZero reports whether the stamp was ever set.
func (s Stamp) IsZero() bool { return s.t.IsZero() }

// Now reads all clocks. It is taken at every win and renewal, and costs one
// system call more than time.Now.
func (c *Clock) Now() Stamp {
	if c.warp != nil && c.warp.Gate != nil {
		c.warp.Gate()
	}
	return c.Peek()
}

// Anchor is Now for leases that are to count from it: it may be that of many, and never changes.
func (c *Clock) Anchor() *Stamp {
	s := c.Now()
	return &s
}

// Peek is Now past the gate: what the candidate's clocks show while the
// candidate itself stands still.
func (c *Clock) Peek() Stamp {
	s := Stamp{t: time.Now(), boot: c.bootAt()}
	if c.warp != nil {
		s.mono, s.wall = c.warp.Mono.Load(), c.warp.Wall.Load()
	}
	return s
}

// Since is how long ago s was read, counting suspends. ok is false when the
// clocks contradict each other and none can be relied on: the lease then counts
// as lost. While the wall and the monotonic clock agree it costs one time.Now
// and allocates nothing.
func (c *Clock) Since(s Stamp) (elapsed time.Duration, ok bool) {
	if c.warp != nil && c.warp.Gate != nil {
		c.warp.Gate()
	}
	return c.PeekSince(s)
}

// PeekSince is Since past the gate.
func (c *Clock) PeekSince(s Stamp) (elapsed time.Duration, ok bool) {
	now := time.Now()
	mono := now.Sub(s.t)
	wall := time.Duration(now.UnixNano() - s.t.UnixNano())
	if c.warp != nil {
		mono += time.Duration(c.warp.Mono.Load() - s.mono)
		wall += time.Duration(c.warp.Wall.Load() - s.wall)
	}
	if d := wall - mono; d <= agreement && d >= -agreement {
		return max(mono, wall), true
	}
	return c.decide(s, mono)
}

// decide reads CLOCK_BOOTTIME, which neither stands still in a suspend (as the
// monotonic clock does) nor follows a step of the wall clock.
func (c *Clock) decide(s Stamp, mono time.Duration) (time.Duration, bool) {
	now := c.bootAt()
	if now == 0 || s.boot == 0 {
		return 0, false
	}
	elapsed := time.Duration(now - s.boot)
	if elapsed < mono-agreement {
		return 0, false // no clock runs backwards against the monotonic one
	}
	return max(elapsed, mono), true
}

func (c *Clock) bootAt() int64 {
	if c.warp == nil {
		return bootNow()
	}
	if c.warp.NoBoot.Load() {
		return 0
	}
	// In a simulation the real boot clock means nothing: the bubble's own
	// clock, plus what the test says has passed in a suspend, takes its place.
	return time.Now().UnixNano() + c.warp.Boot.Load()
}
