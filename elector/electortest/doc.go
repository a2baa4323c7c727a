// Package electortest helps to test programs that embed an elector: what does the
// worker do when it becomes leader, when it loses its lease, when its probe fails,
// when it is cut off from Redis?
//
//	func TestPollerStops(t *testing.T) {
//		electortest.Test(t, func(t *testing.T, r *electortest.Redis) {
//			e, err := elector.New(r.Quorum("a"), elector.Config{Election: "orders"})
//			...
//			go e.Run(ctx, poller.Work)
//			r.Lead(e)                        // e leads, whatever other candidates do
//			electortest.Advance(time.Minute) // a minute of work, in no real time
//			r.TakeLease(e)                   // another candidate has the lease
//			// now check that the poller has stopped
//		})
//	}
//
// [NewTerm] returns a term for a test of a work function alone.
//
// [Test] runs on virtual time: an hour passes in a moment, and the same test
// takes the same steps on any machine. [Start] starts the same Redis on the real
// clock, for code that can't run in a testing/synctest bubble (because it listens on
// a socket, or starts processes).
//
// The Redis is an embedded one (miniredis) behind connections in memory. It runs
// the elector's scripts, expires keys by the test's clock, and serves the
// worker's own data too. It has no ACL, no Cluster, and not every command.
//
// Import it in _test.go files only: a program that imports it links the embedded
// Redis and the testing package.
package electortest
