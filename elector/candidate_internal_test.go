package elector

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// How long a candidate is healthy decides whether a leader makes room for it: so it counts
// from the end of what was wrong, although nothing looks at an election that waits.
func TestHealthyForCountsFromTheEndOfTheCondition(t *testing.T) {
	e := offline(t, 1)
	synctest.Test(t, func(t *testing.T) {
		want := func(what string, healthy bool, since time.Duration) {
			t.Helper()
			info := self{&e.candidate}.Info()
			if info.Healthy != healthy || info.Healthy && info.HealthyFor != since {
				t.Errorf("%s: healthy %v for %v, want %v for %v", what, info.Healthy, info.HealthyFor, healthy, since)
			}
		}
		e.role = RoleFollowing
		e.setCondition(condition{key: "x", err: errors.New("x")})
		time.Sleep(time.Minute)
		want("while a condition lasts", false, 0)
		e.setCondition(condition{})
		time.Sleep(time.Second)
		e.setCondition(condition{}) // as each renewal and each lost claim do
		want("after it", true, time.Second)
		e.wasUnable()
		time.Sleep(time.Millisecond)
		want("after work that outlived its lease", true, time.Millisecond)
	})
}
