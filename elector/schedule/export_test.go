package schedule

import "time"

// SetClock sets the clock of the host. Call it before the jobs are used.
func (j *Jobs) SetClock(now func() time.Time) { j.now = now }
