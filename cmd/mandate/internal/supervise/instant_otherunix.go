//go:build unix && !linux

package supervise

import "golang.org/x/sys/unix"

var clocks = []int32{unix.CLOCK_MONOTONIC}
