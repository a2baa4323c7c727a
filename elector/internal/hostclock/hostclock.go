// Package hostclock is the wall clock of a host; tests set it ahead or back for each candidate.
package hostclock

import (
	"sync"
	"time"
)

var ahead sync.Map // durations by candidate

// Ahead returns how far the clock of a candidate's host is ahead of time.Now: 0 outside of tests.
func Ahead(candidate string) time.Duration {
	d, _ := ahead.Load(candidate)
	by, _ := d.(time.Duration)
	return by
}

// Set sets the clock of a candidate's host ahead of time.Now, for a test.
func Set(candidate string, by time.Duration) { ahead.Store(candidate, by) }
