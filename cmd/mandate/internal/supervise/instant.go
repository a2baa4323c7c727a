package supervise

import "time"

// Instant is a reading, in nanoseconds, of a clock that all processes of this machine share and
// that no user can set. The wall clock would not do: if it was stepped back by an hour, the guard
// would wait for that hour.
type Instant int64

// Now reads the clock.
func Now() Instant { return Instant(nanoseconds()) }

// Add returns the instant that is d later.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Sub returns the time from j to i.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i - j) }

// Until returns the time that is left until i, negative when it has passed.
func Until(i Instant) time.Duration { return i.Sub(Now()) }
