package main

import (
	"strconv"
	"strings"
	"time"
)

// checkSince returns the time of --since.
func (a *app) checkSince(s string) (at time.Time) {
	if s == "" {
		return at
	}
	at, ok := parseSince(s, time.Now())
	switch {
	case !ok:
		a.problem("--since is %q: give a duration such as 90m, 12h or 7d, or a time such as 2026-11-21T17:00:00Z", s)
	case at.After(time.Now()):
		a.problem("--since is %q: that is not in the past", s)
	}
	return at
}

// parseSince parses a duration, which may have days, or a time in RFC 3339 or in the format and
// zone of the tables.
func parseSince(s string, now time.Time) (time.Time, bool) {
	if d, ok := parseDays(s); ok {
		return now.Add(-d), true
	}
	for _, layout := range []string{time.RFC3339, time.DateTime, time.DateOnly} {
		if at, err := time.ParseInLocation(layout, s, time.Local); err == nil {
			return at, true
		}
	}
	return time.Time{}, false
}

// parseDays is time.ParseDuration for durations that may begin with a number of days.
func parseDays(s string) (time.Duration, bool) {
	const longest = 100 * 365
	days := time.Duration(0)
	if number, rest, has := strings.Cut(s, "d"); has {
		n, err := strconv.ParseUint(number, 10, 32)
		if err != nil || n > longest {
			return 0, false
		}
		if days, s = time.Duration(n)*24*time.Hour, rest; s == "" {
			return days, true
		}
	}
	d, err := time.ParseDuration(s)
	return days + d, err == nil && d > 0 && d <= longest*24*time.Hour
}
