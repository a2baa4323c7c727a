package fence

import (
	"errors"
	"time"
)

// Latest returns the newest tick of a schedule, and the time from it to the next one, for [Tick]. next returns the
// first tick after a time, as the Next of robfig/cron's schedules does; a schedule whose ticks depend on when
// a process began has no ideal times. A tick that is due within a tenth of its period (at most 1 s) counts: the
// timer of who asks may have fired early, on a clock that is being set. It fails if the schedule has had no tick
// for eight years, or has no next one.
func Latest(next func(time.Time) time.Time, now time.Time) (tick time.Time, every time.Duration, err error) {
	for back := time.Minute; back < 2*maxEvery; back *= 2 {
		first := next(now.Add(-back))
		if first.IsZero() {
			break
		}
		if first.After(now) {
			continue
		}
		tick = first
		for n := next(tick); ; n = next(tick) {
			every = n.Sub(tick)
			if every <= 0 {
				return tick, 0, errors.New("fence: the schedule has no next tick")
			}
			if n.Sub(now) > min(every/10, time.Second) {
				return tick, every, nil
			}
			tick = n
		}
	}
	return time.Time{}, 0, errors.New("fence: the schedule has had no tick yet")
}
