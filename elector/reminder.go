package elector

import "time"

// reminder decides when a condition that lasts is logged again: after 10 s, after a minute, and
// every five minutes from then on. A single line at its begin would be long out of sight when an
// engineer looks for the reason why nothing happens. The zero value: there is no condition.
type reminder struct{ since, next time.Time }

// begin notes that the condition begins.
func (r *reminder) begin(now time.Time) { *r = reminder{since: now, next: now.Add(10 * time.Second)} }

// due reports whether to log the condition again.
func (r *reminder) due(now time.Time) bool {
	if r.since.IsZero() || now.Before(r.next) {
		return false
	}
	r.next = r.since.Add(time.Minute)
	if !now.Before(r.next) {
		r.next = now.Add(5 * time.Minute)
	}
	return true
}

// lasted returns how long the condition has lasted.
func (r *reminder) lasted(now time.Time) string { return unit(now.Sub(r.since)) }

// unit formats a duration for the log with its unit, which slog's JSON would leave out.
func unit(d time.Duration) string {
	if d > 10*time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Millisecond).String()
}
