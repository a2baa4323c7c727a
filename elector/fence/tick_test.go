package fence_test

import (
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/fence"
)

// everyHour is a schedule with one tick per hour, as robfig/cron has them.
func everyHour(t time.Time) time.Time { return t.Truncate(time.Hour).Add(time.Hour) }

func TestLatestTick(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	leap := func(t time.Time) time.Time { // each 29th of February
		for y := t.Year(); ; y++ {
			if d := time.Date(y, 2, 29, 0, 0, 0, 0, time.UTC); d.Day() == 29 && d.After(t) {
				return d
			}
		}
	}
	for name, k := range map[string]struct {
		next  func(time.Time) time.Time
		now   time.Time
		tick  time.Time
		prev  time.Time
		every time.Duration
	}{
		"on time":    {everyHour, noon, noon, noon.Add(-time.Hour), time.Hour},
		"late":       {everyHour, noon.Add(58 * time.Minute), noon, noon.Add(-time.Hour), time.Hour},
		"early":      {everyHour, noon.Add(-time.Millisecond), noon.Add(-time.Hour), noon.Add(-2 * time.Hour), time.Hour}, // a term that begins before a tick
		"a rare one": {leap, noon, time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC), time.Date(2020, 2, 29, 0, 0, 0, 0, time.UTC), 1461 * 24 * time.Hour},
	} {
		got, err := fence.Latest(k.next, k.now)
		if err != nil || !got.At.Equal(k.tick) || got.Every != k.every || !got.Prev.Equal(k.prev) {
			t.Errorf("%s: %+v, %v; want %v after %v, %v", name, got, err, k.tick, k.prev, k.every)
		}
	}
	for name, next := range map[string]func(time.Time) time.Time{
		"none":      func(time.Time) time.Time { return time.Time{} },
		"from now":  func(t time.Time) time.Time { return t.Add(time.Minute) },
		"in future": func(time.Time) time.Time { return noon.Add(time.Hour) },
		"one only":  func(t time.Time) time.Time { return noon.Add(-time.Hour) },
	} {
		if tick, err := fence.Latest(next, noon); err == nil {
			t.Errorf("%s: %v", name, tick)
		}
	}
}
