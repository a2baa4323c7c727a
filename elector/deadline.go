package elector

import (
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// guard ends the term at its deadline, also when the goroutine that
// renews is stuck. It looks at the clock again every now and then, because
// timers stand still while a machine sleeps.
func (t *Term) guard(every time.Duration) {
	var look func()
	var mu sync.Mutex // the first timer may fire before watch is set
	look = func() {
		mu.Lock()
		defer mu.Unlock()
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
		t.watch.Reset(min(left, every))
	}
	mu.Lock()
	defer mu.Unlock()
	t.expiry.every = every
	// Not at once: its goroutine would then stand in the way of the work's start.
	left, _ := t.grant.Left()
	t.watch = time.AfterFunc(min(left, every), look)
}

// expire ends a term whose deadline has passed.
func (t *Term) expire() {
	elapsed, known := t.clock.Since(t.begun)
	age, ok := t.grant.Age()
	if !known || !ok {
		t.end(ReasonExpired, &ExpiredError{})
		return
	}
	t.end(ReasonExpired, t.expiry.why(elapsed, age))
}

// unconfirmed notes a renewal that no majority has confirmed: it is why the term expires if
// none is in time.
func (t *Term) unconfirmed(tally quorum.Tally) {
	if elapsed, ok := t.clock.Since(t.begun); ok {
		t.expiry.failed(elapsed, tally)
	}
}

// held is for how long the lease has covered the work: until now, or until the lease
// ended; zero when the clocks do not show it.
func (t *Term) held() time.Duration {
	elapsed, ok := t.clock.Since(t.begun)
	past, known := t.grant.Past()
	if !ok || !known {
		return 0
	}
	return max(0, elapsed-past)
}
