package schedule

import (
	"testing"
	"time"
)

// daily returns a schedule as robfig/cron has it, for times of the day.
func daily(times ...time.Duration) func(time.Time) time.Time {
	return func(t time.Time) time.Time {
		for day := t.Truncate(24 * time.Hour); ; day = day.Add(24 * time.Hour) {
			for _, at := range times {
				if next := day.Add(at); next.After(t) {
					return next
				}
			}
		}
	}
}

func location(t *testing.T, name string) *time.Location {
	t.Helper()
	l, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Both nights in which the clock changes, in three zones: a fixed time comes once, others as often as the clock shows them.
func TestNightsInWhichTheClockChanges(t *testing.T) {
	const at = 2*time.Hour + 30*time.Minute
	for _, k := range []struct {
		zone, day string
		time      time.Duration
		want      string // when the job of that time runs on that day
		hours     float64
	}{
		{"Europe/Berlin", "2026-03-28", at, "2026-03-28T02:30:00+01:00", 24},
		{"Europe/Berlin", "2026-03-29", at, "2026-03-29T03:00:00+02:00", 23},
		{"Europe/Berlin", "2026-03-29", 3 * time.Hour, "2026-03-29T03:00:00+02:00", 23},
		{"Europe/Berlin", "2026-10-25", at, "2026-10-25T02:30:00+02:00", 25},
		{"Europe/Berlin", "2026-10-25", 3 * time.Hour, "2026-10-25T03:00:00+01:00", 25},
		{"America/New_York", "2026-03-08", at, "2026-03-08T03:00:00-04:00", 23},
		{"America/New_York", "2026-11-01", 90 * time.Minute, "2026-11-01T01:30:00-04:00", 25},
		{"Australia/Lord_Howe", "2026-10-04", 2*time.Hour + 15*time.Minute, "2026-10-04T02:30:00+11:00", 23.5},
		{"Australia/Lord_Howe", "2026-04-05", 105 * time.Minute, "2026-04-05T01:45:00+11:00", 24.5},
		{"Africa/Cairo", "2026-04-24", 30 * time.Minute, "2026-04-24T01:00:00+03:00", 23}, // no midnight
		{"America/Sao_Paulo", "2018-11-04", 30 * time.Minute, "2018-11-04T01:00:00-02:00", 23},
		{"America/Sao_Paulo", "2018-02-17", 23*time.Hour + 30*time.Minute, "2018-02-17T23:30:00-02:00", 25}, // two midnights
		{"Asia/Beirut", "2026-10-24", 23*time.Hour + 30*time.Minute, "2026-10-24T23:30:00+03:00", 25},
		{"Antarctica/Troll", "2026-03-29", 2 * time.Hour, "2026-03-29T03:00:00+02:00", 22},
		{"Antarctica/Troll", "2026-10-25", at, "2026-10-25T02:30:00+02:00", 26},
		{"Africa/Casablanca", "2026-02-15", at, "2026-02-15T02:30:00+01:00", 25}, // Ramadan
		{"Africa/Casablanca", "2026-03-22", at, "2026-03-22T03:00:00+01:00", 23},
	} {
		zone := location(t, k.zone)
		day, err := time.ParseInLocation(time.DateOnly, k.day, time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		begin, end := first(day, zone), first(day.AddDate(0, 0, 1), zone)
		ticks := func(next func(time.Time) time.Time) (all []time.Time) {
			next = inZone(next, zone)
			for at := next(begin.Add(-1)); at.Before(end); at = next(at) {
				all = append(all, at)
			}
			for i := range 200 { // from any time the same
				from := begin.Add(time.Duration(i) * end.Sub(begin) / 200)
				for _, at := range all {
					if at.After(from) {
						if got := next(from); !got.Equal(at) {
							t.Errorf("%s, %s: after %v comes %v, want %v", k.zone, k.day, from, got, at)
						}
						break
					}
				}
			}
			return all
		}
		if all := ticks(daily(k.time)); len(all) != 1 || all[0].In(zone).Format(time.RFC3339) != k.want {
			t.Errorf("%s, %s: a job at %v runs at %v, want %s", k.zone, k.day, k.time, all, k.want)
		}
		if all := ticks(daily(min(k.time, 20*time.Hour), max(k.time, 20*time.Hour))); len(all) != 2 {
			t.Errorf("%s, %s: two times of the day: %v", k.zone, k.day, all)
		}
		if n := len(ticks(Every(10 * time.Minute))); n != int(k.hours*6) {
			t.Errorf("%s, %s: every ten minutes: %d times in %v hours", k.zone, k.day, n, k.hours)
		}
	}
}

func TestZones(t *testing.T) {
	noon := daily(12 * time.Hour)
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for _, k := range []struct {
		zone *time.Location
		want int // hour in UTC
	}{{nil, 12}, {time.UTC, 12}, {location(t, "Asia/Tokyo"), 3}, {time.FixedZone("", 90*60), 10}, {time.FixedZone("JST", 9*3600), 3}} {
		if got := inZone(noon, k.zone)(now).UTC(); got.Hour() != k.want || got.Day() != 1 {
			t.Errorf("noon in %v is %v", k.zone, got)
		}
	}
	for spec, want := range map[string]string{"CRON_TZ=Asia/Tokyo 0 12 * * *": "Asia/Tokyo", "TZ=UTC @daily": "UTC", "0 12 * * *": "Europe/Berlin", "TZ=UTC": "UTC", "XTZ=UTC": "Europe/Berlin"} {
		rest, zone, err := SplitZone(spec, location(t, "Europe/Berlin"))
		if err != nil || zone.String() != want || len(rest) > 10 {
			t.Errorf("%q: %q, %v, %v", spec, rest, zone, err)
		}
	}
	for _, zone := range []string{"Europe/Atlantis", "Local"} { // the latter is another one on each host
		if _, _, err := SplitZone("TZ="+zone+" 0 12 * * *", nil); err == nil {
			t.Errorf("%s was accepted", zone)
		}
	}
}
