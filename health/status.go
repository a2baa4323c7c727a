package health

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// Status is what a [Runner] reports at one moment.
type Status struct {
	// Healthy is the verdict. False unless a Run or RunArmed is under way.
	Healthy bool

	// Err is why not: the probe's own error where it returned one. Nil exactly when Healthy.
	Err error

	// LastErr is what the last finished run returned, nil when it passed or there was none.
	// A failure shows here even if there are not yet enough to become unhealthy.
	LastErr error

	// Since is the time of the last change of Healthy, at first that of NewRunner.
	Since time.Time

	// Runs and Failures count the finished probe runs since NewRunner, and those of
	// them that did not pass. Took is how long they took in all.
	Runs, Failures uint64
	Took           time.Duration
}

// Status returns the status at this moment. It takes well under a microsecond and never
// waits for a probe. Safe for concurrent use.
func (r *Runner) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	st := r.status
	st.Err = r.reason()
	return st
}

// Changed returns a channel that is closed at the next change of Healthy. Take the channel first and
// read Status after, so that no change falls in between; then take a new one.
func (r *Runner) Changed() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
}

// update publishes a change of the verdict. r.mu is held.
func (r *Runner) update(now time.Time) {
	healthy := r.looping && r.passing
	if healthy == r.status.Healthy {
		return
	}
	r.status.Healthy, r.status.Since = healthy, now
	close(r.changed)
	r.changed = make(chan struct{})
}

// reason returns why the runner is unhealthy, nil exactly when it is healthy. r.mu is held.
func (r *Runner) reason() error {
	switch {
	case r.status.Healthy:
		return nil
	case r.started.IsZero():
		return errors.New("health: the probe runner has not started")
	case !r.looping:
		return errors.New("health: the probe runner has stopped")
	case r.status.LastErr != nil:
		return r.status.LastErr
	}
	return fmt.Errorf("no answer yet, first checked %s ago", short(time.Since(r.started)))
}

// Runner runs one probe in the background and keeps a [Status] of it. It can be run again
// after a run has returned, one term after another; each run starts anew.
//
// All methods are safe for concurrent use.
type Runner struct {
	probe    Probe
	settings Settings
	flight   flight

	mu      sync.Mutex // held for moments, never while a probe runs
	status  Status     // without Err; update alone writes Healthy
	changed chan struct{}
	course
}

// course is what a Runner knows of its last run: nothing of an earlier one counts.
type course struct {
	unarmed error // why the probe could not be armed
	running bool  // Run has not returned yet
	looping bool  // its loop has not ended yet
	started time.Time

	passing    bool // the verdict of the threshold
	failures   int
	graceUntil time.Time
}

// armed makes the start of a term count as the first success.
func (r *Runner) armed(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.graceUntil = now.Add(r.settings.StartGrace)
	r.passing = true
	r.update(now)
}

func (r *Runner) record(start, now time.Time, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status.LastErr = err
	r.status.Runs++
	r.status.Took += now.Sub(start)
	if err != nil {
		r.status.Failures++
	}
	switch {
	case err == nil:
		r.failures, r.passing = 0, true
	case start.Before(r.graceUntil):
		// Shown in LastErr, but not counted: the work is still starting.
	default:
		r.failures++
		if isDefinite(err) || r.failures >= r.settings.Failures {
			r.passing = false
		}
	}
	r.update(now)
}

// stop publishes that the probe is no longer run. Unless running, the next run may begin.
func (r *Runner) stop(running bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.looping, r.running = false, running
	r.update(time.Now())
}
