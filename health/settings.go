package health

import (
	"errors"
	"fmt"
	"time"
)

// The largest values of Settings: of each time, also of Failures x (Interval + Timeout),
// and of each count.
const (
	MaxTime  = 24 * time.Hour
	MaxCount = 1000
)

// Settings define how often a [Runner] runs its probe and how it counts the results. Zero means
// the default; the zero value is useful. No time is above MaxTime, and no count above MaxCount.
type Settings struct {
	// Interval between the starts of two probe runs. Default 1 s, at least 1 ms. A run
	// that takes longer skips starts; they are not made up for.
	Interval time.Duration

	// Timeout of one run, after which it counts as failed. Default 1 s, at least 1 ms.
	// The context of the run ends a twentieth (at most 20 ms) earlier, so that the
	// probe's own error can still arrive in time.
	Timeout time.Duration

	// StartGrace is the time after the start of [Runner.RunArmed] during which failures don't
	// count, not even definite ones. It applies to the runs that began in that time. Default 0.
	// Run ignores it.
	StartGrace time.Duration

	// Failures in a row to become unhealthy. Default 3.
	Failures int

	// Successes in a row to become healthy again. Default 1. At the start of a Run one success
	// is enough.
	Successes int
}

// WithDefaults returns s with the defaults in place of zeros.
func (s Settings) WithDefaults() Settings {
	if s.Interval == 0 {
		s.Interval = time.Second
	}
	if s.Timeout == 0 {
		s.Timeout = time.Second
	}
	if s.Failures == 0 {
		s.Failures = 3
	}
	if s.Successes == 0 {
		s.Successes = 1
	}
	return s
}

// Validate returns all problems of s at once, each with what to do, joined with
// errors.Join; nil when there are none. It looks at s with the defaults in place.
func (s Settings) Validate() error {
	d := s.WithDefaults()
	var problems []error
	add := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("health: "+format, args...))
	}
	for _, f := range []struct {
		name  string
		value time.Duration
	}{{"Interval", s.Interval}, {"Timeout", s.Timeout}, {"StartGrace", s.StartGrace}} {
		switch {
		case f.value < 0:
			add("%s is %s: give a time above zero, or 0 for the default", f.name, f.value)
		case f.value > 0 && f.value < time.Millisecond:
			add("%s is %s: give at least 1ms (was the unit forgotten, as in 5 instead of 5*time.Second?)", f.name, f.value)
		case f.value > MaxTime:
			add("%s is %s: give at most %s", f.name, f.value, MaxTime)
		}
	}
	for _, f := range []struct {
		name             string
		value, byDefault int
	}{{"Failures", d.Failures, 3}, {"Successes", d.Successes, 1}} {
		if f.value < 0 || f.value > MaxCount {
			add("%s is %d: give 1 to %d, or 0 for the default of %d", f.name, f.value, MaxCount, f.byDefault)
		}
	}
	if min(d.Interval, d.Timeout, time.Duration(d.Failures)) < 0 || max(d.Interval, d.Timeout) > MaxTime || d.Failures > MaxCount {
		return errors.Join(problems...) // the product below would mean nothing
	}
	if falls := time.Duration(d.Failures) * (d.Interval + d.Timeout); falls > MaxTime {
		add("Failures x (Interval + Timeout) = %d x (%s + %s) = %s, above %s: lower one of them", d.Failures, d.Interval, d.Timeout, falls, MaxTime)
	}
	return errors.Join(problems...)
}
