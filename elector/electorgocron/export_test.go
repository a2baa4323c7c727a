package electorgocron

import "time"

// WithClock returns a Locker whose process has another clock.
func (l Locker) WithClock(now func() time.Time) Locker {
	l.now = now
	return l
}
