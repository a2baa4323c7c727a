//go:build race

package testredis

import "runtime"

// oneP makes a bubble run on one processor at a time: with -race the timers of a
// bubble share one context of the race detector, and two processors that use it
// at once crash the process now and then (go.dev/issue/78156). What the detector
// finds does not depend on it.
func oneP() (restore func()) {
	n := runtime.GOMAXPROCS(1)
	return func() { runtime.GOMAXPROCS(n) }
}
