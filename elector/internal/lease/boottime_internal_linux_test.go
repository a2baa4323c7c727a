package lease

import (
	"runtime"
	"testing"
	"time"
)

// The boot clock decides for seconds in the life of a process, after a suspend or
// a step of the clock: it must work then, although no other test can suspend.
func TestBootClockRunsWithTheMonotonicOne(t *testing.T) {
	c := NewClock(nil)
	before := time.Now()
	s := c.Now()
	for time.Since(before) < 5*time.Millisecond { // more than they may differ by
		runtime.Gosched()
	}
	mono := time.Since(s.t)
	elapsed, ok := c.decide(s, mono)
	if total := time.Since(before); !ok || elapsed < mono || elapsed > total {
		t.Errorf("the boot clock says %v, %v; the monotonic one between %v and %v", elapsed, ok, mono, total)
	}
}
