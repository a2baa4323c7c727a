//go:build race

package electortest

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
