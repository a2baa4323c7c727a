//go:build race

package testredis

import (
	"runtime"
	"sync"
)

// processors is global because GOMAXPROCS is: of tests that run in parallel, the last one to end
// restores it.
var processors struct {
	sync.Mutex
	users  int
	before int
}

// OneProcessor makes the process run on one processor until restore is called: with -race the timers
// of a bubble share one context of the race detector, and two processors that use it at the same time
// sometimes crash the process (go.dev/issue/78156). The detector finds the same races with one
// processor.
func OneProcessor() (restore func()) {
	p := &processors
	p.Lock()
	defer p.Unlock()
	if p.users++; p.users == 1 {
		p.before = runtime.GOMAXPROCS(1)
	}
	return func() {
		p.Lock()
		defer p.Unlock()
		if p.users--; p.users == 0 {
			runtime.GOMAXPROCS(p.before)
		}
	}
}
