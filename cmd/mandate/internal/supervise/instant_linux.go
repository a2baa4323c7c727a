package supervise

import "golang.org/x/sys/unix"

// The boot clock also advances while the machine is suspended, as the lease does.
var clocks = []int32{unix.CLOCK_BOOTTIME, unix.CLOCK_MONOTONIC}
