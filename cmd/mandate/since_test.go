package main

import (
	"testing"
	"time"
)

func TestSince(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.Local)
	for s, want := range map[string]time.Time{
		"90m": now.Add(-90 * time.Minute), "12h": now.Add(-12 * time.Hour),
		"2026-11-21T17:00:00Z":      time.Date(2026, 11, 21, 17, 0, 0, 0, time.UTC),
		"2026-11-21T17:00:00+01:00": time.Date(2026, 11, 21, 16, 0, 0, 0, time.UTC),
		"2026-11-21 17:00:00":       time.Date(2026, 11, 21, 17, 0, 0, 0, time.Local),
		"2026-11-21":                time.Date(2026, 11, 21, 0, 0, 0, 0, time.Local),
	} {
		if got, ok := parseSince(s, now); !ok || !got.Equal(want) {
			t.Errorf("%q: %v, %v; want %v", s, got, ok, want)
		}
	}
	for _, s := range []string{"", "12", "0s", "-1h", "d", "-1d", "yesterday", "2026-13-01"} {
		if got, ok := parseSince(s, now); ok {
			t.Errorf("%q is %v", s, got)
		}
	}
}
