package schedule

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Every returns a schedule with a tick at each multiple of d since the year 1, in UTC: the same on every replica, whenever it began.
func Every(d time.Duration) func(time.Time) time.Time {
	return func(t time.Time) time.Time { return t.Truncate(d).Add(d) }
}

// SplitZone cuts the zone off a crontab (CRON_TZ=Europe/Berlin 30 2 * * *, or TZ=), so that it can be a [Config]'s Next and Location.
// A crontab without one has the given location.
func SplitZone(crontab string, without *time.Location) (string, *time.Location, error) {
	zone, rest, _ := strings.Cut(crontab, " ") // without a rest parsers panic: they are to refuse the empty one
	name, isZone := strings.CutPrefix(strings.TrimPrefix(zone, "CRON_"), "TZ=")
	if !isZone {
		return crontab, without, nil
	}
	location, err := time.LoadLocation(name)
	if location == time.Local { // each host has its own
		err = errors.New("name the zone")
	}
	if err != nil {
		return "", nil, fmt.Errorf("%q: %w", crontab, err)
	}
	return rest, location, nil
}

// inZone returns the ticks of a schedule in a zone. The schedule is asked for what clocks on the wall show, as if all days had
// 24 hours; here is decided what becomes of it in the nights that have 23 or 25, as cron(8) does. A schedule with a tick in every hour
// runs as often as the clock shows its times. Any other one runs once for each of its times: a time that does not come
// runs when the clock has jumped over it, and one that comes twice the first time.
func inZone(next func(time.Time) time.Time, location *time.Location) func(time.Time) time.Time {
	if d := delay(next); d > 0 {
		return Every(d)
	}
	if location == nil || location == time.UTC {
		return func(t time.Time) time.Time { return next(t.UTC()) }
	}
	return func(t time.Time) time.Time {
		t = t.In(location)
		from := wall(t)
		for w := next(from); !w.IsZero() && w.After(from); w = next(w) {
			if begin, end := t.ZoneBounds(); (near(w, begin) || near(w, end)) && everyHour(next, w) {
				return asOften(next, t, end)
			}
			if at := first(w, location); at.After(t) {
				return at
			}
			from = w
		}
		return time.Time{}
	}
}

// delay returns how far the next tick is, if that is the same at any time, as with @every; otherwise 0.
func delay(next func(time.Time) time.Time) time.Duration {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	d := next(noon).Sub(noon)
	for _, later := range []time.Duration{time.Second, 31 * time.Second, 59 * time.Second, 67 * time.Minute, 5 * time.Hour, 31 * 24 * time.Hour} {
		if at := noon.Add(later); next(at).Sub(at) != d {
			return 0
		}
	}
	return d
}

// wall returns what a clock on the wall shows, as a time in UTC.
func wall(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
}

// near reports whether the clock shows w on the day on which it changes, or next to that.
func near(w, changes time.Time) bool {
	return !changes.IsZero() && wall(changes).Sub(w).Abs() < 48*time.Hour
}

// everyHour reports whether the schedule has a tick in each hour of that day.
func everyHour(next func(time.Time) time.Time, w time.Time) bool {
	day := w.Truncate(24 * time.Hour)
	for hour := range 24 {
		begin := day.Add(time.Duration(hour) * time.Hour)
		if !next(begin.Add(-1)).Before(begin.Add(time.Hour)) {
			return false
		}
	}
	return true
}

// asOften returns the first time after t at which the clock shows a tick; it changes at the given time, or never.
func asOften(next func(time.Time) time.Time, t, changes time.Time) time.Time {
	at := t.Add(next(wall(t)).Sub(wall(t)))
	if changes.IsZero() || at.Before(changes) {
		return at
	}
	changed := wall(changes)
	return changes.Add(next(changed.Add(-1)).Sub(changed))
}

// first returns the first time at which the clock shows w or, where it jumps over w, the time of the jump.
func first(w time.Time, location *time.Location) time.Time {
	at := time.Date(w.Year(), w.Month(), w.Day(), w.Hour(), w.Minute(), w.Second(), w.Nanosecond(), location)
	begin, end := at.ZoneBounds()
	switch {
	case wall(at).Before(w):
		return end
	case wall(at).After(w):
		return begin
	case begin.IsZero():
		return at
	}
	before := begin.Add(-1)
	if earlier := before.Add(w.Sub(wall(before))); earlier.Before(begin) { // w is shown twice
		return earlier
	}
	return at
}
