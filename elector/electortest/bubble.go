package electortest

import (
	"testing"
	"testing/synctest"
	"time"
)

// Test runs f in a testing/synctest bubble, with a Redis in it: time is virtual,
// and moves on when every goroutine of the test waits for something.
//
// What holds for bubbles holds for f: it ends what it starts (the contexts of
// Run, above all: t.Cleanup is early enough), it opens no socket, and nothing in
// it waits for something outside. With -race the whole process runs on one
// processor meanwhile, because two of them crash the race detector in a bubble
// now and then (go.dev/issue/78156); calling synctest.Test yourself you would
// have to see to that. f must not call t.Parallel or t.Run.
func Test(t *testing.T, f func(t *testing.T, r *Redis)) {
	t.Helper()
	defer oneProcessor()()
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { // the last of all clean-ups
			// What an elector left in the background ends within a lease or
			// so. A bubble must not be left before that.
			time.Sleep(leftoverTime)
			synctest.Wait()
		})
		f(t, Start(t))
	})
}

// leftoverTime is more virtual time than anything in the background takes.
const leftoverTime = time.Hour

// Advance lets d of virtual time pass, and returns when everything that happens
// up to that moment has happened. Only within [Test] (it panics elsewhere).
func Advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
