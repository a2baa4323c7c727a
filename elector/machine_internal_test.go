package elector

import (
	"math"
	"testing"
	"time"
)

// A doubled cool-down that overflows would be none at all.
func TestCooldownNeverOverflows(t *testing.T) {
	e := &Elector{cfg: Config{Cooldown: math.MaxInt64}}
	last := time.Duration(0)
	for trips := 1; trips < 70; trips++ {
		d := e.restAfter(ReasonUnhealthy, trips)
		if d < last || d <= 0 {
			t.Fatalf("trip %d: %v after %v", trips, d, last)
		}
		last = d
	}
}
