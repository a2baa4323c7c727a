//go:build race

package electortest

import (
	"runtime"
	"sync"
)

// The number of processors belongs to the process, so what is remembered of it
// does too: of tests that run side by side the last one restores it.
var processors struct {
	sync.Mutex
	users  int
	before int
}

func oneProcessor() (restore func()) {
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
