package elector

import (
	"errors"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// guard ends the term at its deadline, even when the goroutine that renews it is stuck. Its timer fires at
// the deadline, and looks at the clock at least at that interval, because timers stand still while the
// host is suspended: the work of a host that slept is stopped within that interval.
func (t *Term) guard(every time.Duration) {
	t.expiry.every = every
	t.expiry.timer = time.AfterFunc(time.Hour, t.look)
	left, _ := t.grant.Left()
	t.expiry.timer.Reset(min(left, every))
}

// look ends the term if its deadline has passed. Otherwise it records, for an expiredError, that this
// process is running, and sets the timer again.
func (t *Term) look() {
	if t.ended.Load() {
		return
	}
	left, _ := t.grant.Left()
	if left <= 0 {
		t.expire()
		return
	}
	if elapsed, ok := t.clock.Since(t.begun); ok {
		t.expiry.looked.Store(int64(elapsed))
	}
	t.expiry.timer.Reset(min(left, shared(t.expiry.every, t.expiry.every/16)))
}

// shared shortens the time to an event by less than step, so that it falls on a moment that it shares
// with such events of other elections: a process that is awake anyway handles them together. Steps that
// are shorter than a millisecond, which timers hardly distinguish, shorten nothing.
func shared(in, step time.Duration) time.Duration {
	if step < time.Millisecond {
		return max(0, in)
	}
	now := time.Now().Round(0) // as Truncate, without the monotonic clock
	return max(0, now.Add(in).Truncate(step).Sub(now))
}

// expire ends a term whose deadline has passed.
func (t *Term) expire() {
	elapsed, known := t.clock.Since(t.begun)
	age, ok := t.grant.Age()
	if !known || !ok {
		t.end(ReasonExpired, errors.New("the clocks of this host contradict each other: it was suspended, or its clock was set"))
		return
	}
	t.end(ReasonExpired, t.expiry.why(elapsed, age))
}

// unconfirmed records a renewal that no majority has confirmed: it explains why the term expires if
// no later one is confirmed in time.
func (t *Term) unconfirmed(tally quorum.Tally) {
	if elapsed, ok := t.clock.Since(t.begun); ok {
		t.expiry.failed(elapsed, tally)
	}
}

// held returns for how long the lease has covered the work: until now, or until the deadline if that
// has passed; zero when the clocks do not show it.
func (t *Term) held() time.Duration {
	elapsed, ok := t.clock.Since(t.begun)
	past, known := t.grant.Past()
	if !ok || !known {
		return 0
	}
	return max(0, elapsed-past)
}
