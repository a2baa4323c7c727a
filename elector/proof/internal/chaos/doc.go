// Package chaos breaks real elections on purpose and proves afterwards what
// happened. Real processes (embedded workers, and mandate run), three real
// redis-servers, and a proxy between each candidate and each server; a seeded
// schedule kills, pauses, cuts off and slows down. Every process writes what it
// believes into one journal outside of Redis, and Check reads it when all is
// over: no two valid terms at once, tokens in order, no stale write applied,
// never longer without a leader than promised.
//
// A storm (storm_test.go) kills leading processes, what watches over them, or both at a time, and proves
// that a release after a crash comes after the last sign of life of all that was killed. Where nothing is left
// that may release (stormstrike_test.go), another candidate leads when the lease has lapsed, and not before.
//
// It runs on Linux, where a process can read a clock that all processes share.
//
//	make chaos CHAOSTIME=10m CHAOSKILLS=10000 CHAOSSEED=17
//
// CHAOSJOURNAL names a file that gets the journal of a run with violations.
package chaos
