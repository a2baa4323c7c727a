//go:build unix

package supervise

import (
	"time"

	"golang.org/x/sys/unix"
)

// nanoseconds reads the clock.
func nanoseconds() int64 {
	for _, clock := range clocks {
		var ts unix.Timespec
		// ClockGettime fails only for a clock that the kernel doesn't have, and then it fails in
		// all processes.
		if unix.ClockGettime(clock, &ts) == nil {
			return ts.Nano()
		}
	}
	return time.Now().UnixNano()
}
