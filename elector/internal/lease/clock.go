package lease

import (
	"context"
	"sync/atomic"
	"time"
)

// agreement is by how much the monotonic and the wall clock may differ over one lease without a
// third clock being read. It is part of the drift allowance.
const agreement = time.Millisecond

// Clock measures how much time has passed, across suspends and clock steps. The zero value
// is the machine's clock; a Warp distorts it, for tests.
type Clock struct {
	warp    *Warp
	granted func(Held) // may be nil
}

// NewClock returns the machine's clock, distorted by w unless w is nil.
func NewClock(w *Warp) *Clock { return &Clock{warp: w} }

// ClockOf is NewClock for one election of a process. granted is called with each lease that this
// clock measures, for a checker that knows the true time.
func ClockOf(w *Warp, granted func(Held)) *Clock { return &Clock{warp: w, granted: granted} }

// Warp distorts the clocks of one candidate in a simulation. Safe for concurrent use. Gate, if
// set, is called before every reading: a Gate that blocks pauses everything that reads the clock,
// as SIGSTOP does.
type Warp struct {
	Mono, Wall, Boot atomic.Int64 // nanoseconds added to each clock
	NoBoot           atomic.Bool  // as on systems without CLOCK_BOOTTIME
	Gate             func()
}

// Held is the part of a Grant that the checker of a simulation reads.
type Held interface{ TrueDeadline() time.Time }

// Stamp is one reading of all clocks: the anchor that a lease counts from.
type Stamp struct {
	t          time.Time // wall and monotonic in one reading
	boot       int64     // CLOCK_BOOTTIME in ns; 0: not known
	mono, wall int64     // ns that the Warp added at the time of the reading
}

// IsZero reports whether the stamp was never set.
func (s Stamp) IsZero() bool { return s.t.IsZero() }

// Now reads all clocks. It is called at every claim and renewal, and costs one system call more
// than time.Now.
func (c *Clock) Now() Stamp {
	if c.warp != nil && c.warp.Gate != nil {
		c.warp.Gate()
	}
	s := Stamp{t: time.Now(), boot: c.bootAt()}
	if c.warp != nil {
		s.mono, s.wall = c.warp.Mono.Load(), c.warp.Wall.Load()
	}
	return s
}

// Since returns how long ago s was read, including suspends. ok is false when the clocks
// contradict each other and none can be relied on: the lease then counts as lost. While the
// wall and the monotonic clock agree, Since costs one time.Now and allocates nothing.
func (c *Clock) Since(s Stamp) (elapsed time.Duration, ok bool) {
	if c.warp != nil && c.warp.Gate != nil {
		c.warp.Gate()
	}
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

// decide is Since when the other clocks disagree: it reads CLOCK_BOOTTIME, which neither stops in
// a suspend (as the monotonic clock does) nor follows a step of the wall clock.
func (c *Clock) decide(s Stamp, mono time.Duration) (time.Duration, bool) {
	now := c.bootAt()
	if now == 0 || s.boot == 0 {
		return 0, false
	}
	elapsed := time.Duration(now - s.boot)
	if elapsed < mono-agreement {
		return 0, false // CLOCK_BOOTTIME can't have advanced less than the monotonic clock
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
	// In a simulation the real boot clock is meaningless: it is replaced by the bubble's
	// clock, plus the time that the test counts as suspended.
	return time.Now().UnixNano() + c.warp.Boot.Load()
}

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
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
