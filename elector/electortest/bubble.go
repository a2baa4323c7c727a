package electortest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/testredis"
)

// Test runs f in a testing/synctest bubble, with a Redis in it. Time is virtual,
// and advances when every goroutine of the test is blocked.
//
// The rules of bubbles apply to f: it must end all goroutines that it starts (above
// all, cancel the contexts of Run; t.Cleanup is early enough), it must open no socket, and
// nothing in it may wait for something outside. With -race the whole process runs on one
// processor meanwhile, because with two the race detector sometimes crashes in a bubble
// (go.dev/issue/78156); a test that calls synctest.Test itself has to do the same.
// f must not call t.Parallel or t.Run.
func Test(t *testing.T, f func(t *testing.T, r *Redis)) {
	t.Helper()
	defer testredis.OneProcessor()()
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { // runs after all other clean-ups
			// The goroutines that an elector leaves in the background end within about
			// a lease. A bubble must not end before they do.
			time.Sleep(leftoverTime)
			synctest.Wait()
		})
		f(t, Start(t))
	})
}

// leftoverTime is more virtual time than any background goroutine takes to end.
const leftoverTime = time.Hour

// Advance lets d of virtual time pass, and returns when all goroutines of the bubble are blocked
// again. Call it only within [Test]: it panics elsewhere.
func Advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
