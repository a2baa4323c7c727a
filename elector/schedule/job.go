package schedule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/fence"
	"github.com/mandate-dev/mandate/elector/internal/hostclock"
)

// Job is a job and its schedule: for robfig/cron it is both. Make one with [Jobs.Add].
type Job struct {
	Config
	jobs *Jobs
	next func(time.Time) time.Time

	paused  atomic.Bool
	taking  chan struct{} // holds a value while a tick is taken
	attempt string        // of all ticks since the last answer: a request that hangs may be executed after those of later ticks

	mu     sync.Mutex
	fired  time.Time // the newest tick for which the scheduler of this process fired
	missed bool      // a missed tick is to be run, whether it has fired for that before or not
	why    string    // the newest tick of this term was not taken
}

// Next returns the first tick after t: it is the schedule.
func (j *Job) Next(t time.Time) time.Time {
	ahead := hostclock.Ahead(j.jobs.by)
	at := j.next(t.Add(ahead))
	if at.IsZero() {
		return at
	}
	return at.Add(-ahead).In(t.Location())
}

func (j *Job) now() time.Time { return time.Now().Add(hostclock.Ahead(j.jobs.by)) }

// Run is called by the scheduler when a tick is due. It does nothing where this process does not lead.
func (j *Job) Run() { _ = j.RunContext(context.Background()) }

// RunContext is Run with a context for the job, which also ends with the term. It returns the error of the job, which is logged. While
// Redis does not answer it tries again, as long as this process leads; the tick may be overtaken by the next one meanwhile.
func (j *Job) RunContext(ctx context.Context) error {
	if !j.await(ctx) {
		return nil
	}
	for {
		tick, err := fence.Latest(j.next, j.now())
		if err != nil {
			return err
		}
		again, err := j.run(ctx, tick)
		if !again || !j.pause(ctx) {
			return err
		}
	}
}

// pause waits before the newest tick is tried again, and reports false if that is done already for another call of the scheduler.
func (j *Job) pause(ctx context.Context) bool {
	if !j.paused.CompareAndSwap(false, true) {
		return false
	}
	defer j.paused.Store(false)
	return sleep(ctx, time.Second)
}

// ErrAgain is for a Do that has done nothing: the tick runs again, here or on the next leader, within Config.Within.
var ErrAgain = errors.New("schedule: the tick is to run again")

// run runs a tick, if this process leads, and nobody has taken it. It reports whether it is worth while to try again.
func (j *Job) run(ctx context.Context, tick fence.Tick) (again bool, err error) {
	term, leave, err := j.jobs.gate.Enter()
	if err != nil {
		return false, nil
	}
	defer leave()
	tick = j.fill(tick, term)
	if tick, err = j.take(ctx, term, tick); err != nil {
		return !final(err), nil
	}
	err = j.jobs.gate.Do(ctx, func(ctx context.Context, _ *elector.Term) error {
		return j.Do(ctx, Run{Job: j.Name, Tick: tick.At, Token: term.Token()})
	})
	if err != nil {
		j.jobs.log.Warn("job failed", "job", j.Name, "tick", tick.At, "error", err)
	}
	if again = errors.Is(err, ErrAgain) || errors.Is(err, elector.ErrNotLeader) && !term.Valid(); again {
		err = errors.Join(err, j.jobs.ticks.GiveBack(ctx, tick))
	}
	return again, err
}

// take takes a tick for a term. It returns the tick with its attempt.
func (j *Job) take(ctx context.Context, term *elector.Term, tick fence.Tick) (fence.Tick, error) {
	j.taking <- struct{}{} // two calls with one attempt would both run the tick; a request that hangs ends with the term
	defer func() { <-j.taking }()
	request, cancel := within(ctx, term)
	defer cancel()
	j.attempt = cmp.Or(j.attempt, fence.NewAttempt())
	tick.Attempt = j.attempt
	err := j.jobs.ticks.Take(request, tick)
	if err == nil || final(err) {
		j.attempt = ""
	}
	switch {
	case err == nil || final(err) || ctx.Err() == nil && term.Valid():
		j.note(err)
	case !term.Valid():
		j.jobs.log.Warn("tick may not run: no answer before the term ended", "job", j.Name, "tick", tick.At, "error", err)
	}
	return tick, err
}

// await waits for the tick for which the scheduler fires: the newest one that is due; but if it has fired for that before, its
// timer was early, as after a clock was set back, and the next one is meant if it is nearer.
func (j *Job) await(ctx context.Context) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := j.now()
	tick, err := fence.Latest(j.next, now)
	next := tick.At.Add(tick.Every)
	early := next.Sub(now)
	if err != nil || j.missed || tick.At.After(j.fired) || early > tick.Every/2 {
		j.missed, j.fired = false, tick.At
		return true
	}
	j.fired = next
	j.mu.Unlock()
	defer j.mu.Lock()
	return sleep(ctx, early)
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	return ctx.Err() == nil
}

// takeTimeout bounds a request to the Redis of the ticks.
const takeTimeout = 5 * time.Second

// within returns a context for a request: the end of the term does not wait for it.
func within(ctx context.Context, term *elector.Term) (context.Context, func()) {
	ctx, cancel := context.WithTimeout(ctx, takeTimeout)
	unlink := context.AfterFunc(term.Context(), cancel)
	return ctx, func() { unlink(); cancel() }
}

// fill completes a tick of the schedule.
func (j *Job) fill(tick fence.Tick, term *elector.Term) fence.Tick {
	tick.Job, tick.Within, tick.Token, tick.By = j.Name, j.Within, term.Token(), j.jobs.by
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case tick.Prev.Before(term.Since()):
		tick.Why = "no leader ran it in time"
	case j.why != "":
		tick.Why = j.why
	default:
		tick.Why = "the scheduler did not run it in time"
	}
	return tick
}

// final reports whether a tick that was not taken can't be taken a moment later either.
func final(err error) bool {
	return errors.Is(err, elector.ErrNotLeader) || errors.Is(err, fence.ErrRan) || errors.Is(err, fence.ErrStale) || errors.Is(err, fence.ErrSkipped)
}

// note reports that the Redis of the ticks answers, or why not.
func (j *Job) note(err error) {
	if err != nil && final(err) && !errors.Is(err, fence.ErrForeignMark) {
		err = nil
	}
	j.mu.Lock()
	if j.why = ""; err != nil {
		j.why = fmt.Sprintf("it could not be taken: %.200s", cmp.Or(errors.Unwrap(err), err)) // err names a tick that may run yet
	}
	j.mu.Unlock()
	j.jobs.report(j.Name, err)
}

// catchUp runs the newest tick of the job if nobody has run it, and makes a new job known.
func (j *Job) catchUp(ctx context.Context, term *elector.Term) {
	for {
		tick, err := fence.Latest(j.next, j.now())
		if err != nil {
			return
		}
		j.mu.Lock()
		j.fired = tick.At
		j.mu.Unlock()
		request, cancel := within(ctx, term)
		missed, err := j.jobs.ticks.Missed(request, j.fill(tick, term))
		cancel()
		if ctx.Err() != nil {
			return
		}
		j.note(err)
		if err == nil && missed {
			j.late(ctx)
		}
		if err == nil || final(err) || !sleep(ctx, time.Second) {
			return
		}
	}
}

// late runs a missed tick.
func (j *Job) late(ctx context.Context) {
	j.mu.Lock()
	j.missed = true
	j.mu.Unlock()
	if j.Late != nil {
		go j.Late(ctx)
		return
	}
	go func() { _ = j.RunContext(ctx) }()
}
