package health

import "time"

// reset begins a run: nothing of an earlier one counts. r.mu is held.
func (r *Runner) reset() {
	r.running, r.looping, r.started = true, true, time.Now()
	r.passing, r.fell, r.stale = false, false, false
	r.failures, r.successes = 0, 0
	r.graceUntil, r.freshFrom, r.freshUntil = time.Time{}, time.Time{}, time.Time{}
	r.lastErr, r.failure = nil, nil
}

// armed makes the start of a term count as the first success.
func (r *Runner) armed(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.graceUntil = now.Add(r.settings.StartGrace)
	r.passing = true
	r.refresh(now)
	r.update(now)
}

// record counts the outcome of one probe run.
func (r *Runner) record(start, now time.Time, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.update(now) // MaxAge may have passed before this answer came
	r.lastErr = err
	r.runs++
	r.took += now.Sub(start)
	if err != nil {
		r.failed++
	}
	switch {
	case err == nil:
		r.failures = 0
		r.successes++
		r.refresh(now)
		r.stale = false
		if !r.fell || r.successes >= r.settings.Successes {
			r.passing = true
		}
	case start.Before(r.graceUntil):
		// Shown in LastErr, but not counted: the work is still starting.
	default:
		r.successes = 0
		r.failures++
		r.failure = err
		if isDefinite(err) || r.failures >= r.settings.Failures {
			r.fall()
			r.stale = false // the probe's own error explains it
		}
	}
	r.update(now)
}

// refresh notes a success. Its age counts from now, or from the end of the start grace: a success
// early in the grace must not get too old before failures begin to count. r.mu is held.
func (r *Runner) refresh(now time.Time) {
	r.freshFrom = now
	if r.graceUntil.After(now) {
		r.freshFrom = r.graceUntil
	}
	r.freshUntil = r.freshFrom.Add(r.settings.MaxAge)
	if r.expire == nil {
		r.expire = time.AfterFunc(r.freshUntil.Sub(now), r.expired)
		return
	}
	r.expire.Reset(r.freshUntil.Sub(now))
}

// expired publishes that the last success is too old even when no caller reads the status. When
// a success came in the meantime, update finds nothing to do.
func (r *Runner) expired() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.update(time.Now())
}

// stop publishes that the probe is no longer run.
func (r *Runner) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.looping = false
	if r.expire != nil {
		r.expire.Stop()
	}
	r.update(time.Now())
}

// finish lets the next run begin.
func (r *Runner) finish() {
	r.stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running = false
}
