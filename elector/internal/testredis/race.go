//go:build race

package testredis

import "runtime"

// oneP makes a bubble run on one processor: with -race the timers of a bubble share one
// context of the race detector, and two processors that use it at the same time sometimes
// crash the process (go.dev/issue/78156). The detector finds the same races with one
// processor.
func oneP() (restore func()) {
	n := runtime.GOMAXPROCS(1)
	return func() { runtime.GOMAXPROCS(n) }
}
