package schedule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/fence"
)

// Why a run did not end by itself, and why a tick can't be taken.
var (
	errTimeout  = errors.New("schedule: the job has reached its Timeout")
	errRemoved  = errors.New("schedule: the job was removed")
	errCaller   = errors.New("schedule: the context of RunNow has ended")
	errBlocked  = errors.New("schedule: the job is blocked")
	errSchedule = errors.New("the Schedule")
)

// These bound a request to the Redis of the ticks; one that the release of the lock waits for; and the times between requests for a tick.
const (
	requestTimeout = 5 * time.Second
	endTimeout     = 200 * time.Millisecond
	minRetry       = time.Second
	maxRetry       = 10 * time.Second
)

// loop runs a job in a term. Its goroutine owns all fields.
type loop struct {
	*job
	term       *elector.Term
	by         string
	met        bool      // the ticks' Redis has answered in this term
	decided    time.Time // the newest tick that was, as far as known
	attempt    string    // of all ticks since the last answer: a request that hangs may be executed after those of later ticks
	retry      time.Duration
	ended      time.Time                   // when the newest run has
	unrecorded func(context.Context) error // records how that ended; nil: it is recorded
	owed       error                       // why the newest tick is to run again; nil: it is not
	why        string                      // it was not taken, or not run
}

// byHand is a request of RunNow.
type byHand struct {
	ctx  context.Context
	done chan error
}

// lead runs the job until ctx ends: with the term, or because the job is removed.
func (l *loop) lead(ctx context.Context) {
	if l.after != nil {
		<-l.after
	}
	for due := l.jobs.now(); l.wait(ctx, due); {
		due = l.turn(ctx)
	}
	l.leave(ctx)
}

// wait waits until it is due by the clock of this host; a zero time never is. It returns false when ctx has ended. It looks at the
// clock each minute: timers do not notice that it is set, nor that the machine sleeps.
func (l *loop) wait(ctx context.Context, due time.Time) bool {
	limit := due.Sub(l.jobs.now()) + time.Minute
	for ctx.Err() == nil {
		rest := time.Minute
		if left := due.Sub(l.jobs.now()); !due.IsZero() {
			if rest = min(rest, left); rest <= 0 || left > limit { // the clock was set back: look again
				return true
			}
		}
		timer := time.NewTimer(rest)
		select {
		case <-timer.C:
		case h := <-l.byHand:
			h.done <- l.runNow(ctx, h)
		case <-ctx.Done():
		}
		timer.Stop()
	}
	return false
}

// latest returns the newest tick that is due.
func (j *job) latest() (tick fence.Tick, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
		if err != nil {
			err = fmt.Errorf("%w of %s: %w", errSchedule, j.Name, err)
		}
	}()
	zone := cmp.Or(j.Location, time.UTC)
	tick, err = fence.Latest(func(t time.Time) time.Time { return j.Schedule.Next(t.In(zone)) }, j.jobs.now())
	tick.Job, tick.Within, tick.Token, tick.Missed = j.Name, j.Within, 1, true
	if err == nil {
		err = tick.Check()
	}
	return tick, err
}

// turn decides the newest tick that is due, and runs it if nobody has. It returns when to look again.
func (l *loop) turn(ctx context.Context) time.Time {
	tick, err := l.latest()
	if err == nil {
		err = l.record(ctx)
	}
	if l.decided.Sub(tick.Now) > max(tick.Next.Sub(tick.At), time.Minute) {
		l.met = false // the clock was set back: is the job blocked?
	}
	if err == nil && (!l.met || tick.At.After(l.decided)) {
		err = l.decide(ctx, tick)
	}
	switch {
	case err == nil || ctx.Err() != nil || errors.Is(err, errBlocked):
		l.retry, l.why = 0, ""
	case errors.Is(err, ErrNothingDone):
		l.retry, l.why = minRetry, fmt.Sprintf("its job did nothing: %.200s", err)
	default:
		l.retry, l.why = min(max(2*l.retry, minRetry), maxRetry), fmt.Sprintf("it could not be taken: %.200s", err)
	}
	l.report(ctx, err)
	if again := l.jobs.now().Add(l.retry); l.retry > 0 && (tick.Next.IsZero() || again.Before(tick.Next)) {
		return again
	}
	return tick.Next
}

// decide asks for a tick, and runs it if it is ours. It returns why the tick is not decided, or an errBlocked.
func (l *loop) decide(ctx context.Context, tick fence.Tick) error {
	l.attempt = cmp.Or(l.attempt, fence.NewAttempt())
	tick.Attempt, tick.Why, tick.Missed = l.attempt, l.reason(tick), !l.met
	mark, err := l.take(ctx, &tick)
	if err != nil && ctx.Err() != nil && (l.met || tick.At.After(l.term.Since())) {
		l.jobs.log().Warn("tick may not run: no answer before the term ended", "job", l.Name, "tick", tick.At, "error", err)
	}
	answered := err == nil || errors.Is(err, fence.ErrRan) || errors.Is(err, fence.ErrNotDue) || errors.Is(err, fence.ErrSkipped)
	if !answered && !errors.Is(err, fence.ErrStale) {
		return err
	}
	if l.attempt = ""; answered {
		l.met = true
		l.report(ctx, nil) // the run may take long
	}
	switch ahead := mark.Blocked(tick.Now); {
	case err == nil:
		return l.run(ctx, tick)
	case errors.Is(err, fence.ErrStale):
		return err
	case errors.Is(err, fence.ErrSkipped) && mark.Token == 0: // otherwise its mark names it, and the log
		l.jobs.log().Warn("ticks were not run", "job", l.Name, "first", tick.At, "last", tick.At, "reason", tick.Why)
	case ahead > 0:
		l.decided = tick.At
		return fmt.Errorf("%w: the ticks of %s in the next %v were taken by a clock that was ahead: if it was wrong, delete %s", errBlocked, l.Name, ahead.Truncate(time.Second), mark.Mark)
	}
	if l.decided = tick.At; mark.Tick.After(tick.At) {
		l.decided = mark.Tick // of a leader whose clock was ahead by less than a period
	}
	return nil
}

// take takes a tick in this term, and compares the clocks.
func (l *loop) take(ctx context.Context, tick *fence.Tick) (fence.Taken, error) {
	tick.Token, tick.By = l.term.Token(), l.by
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	sent := l.jobs.now()
	mark, err := l.jobs.ticks.Take(ctx, *tick)
	if !mark.Clock.IsZero() {
		l.jobs.compareClocks(max(0, mark.Clock.Sub(l.jobs.now())) - max(0, sent.Sub(mark.Clock)))
	}
	return mark, err
}

// compareClocks reports whether the clock of the ticks' Redis is more than a minute ahead of that of this host, or behind.
func (j *Jobs) compareClocks(ahead time.Duration) {
	var err error
	if ahead.Abs() > time.Minute {
		err = fmt.Errorf("schedule: the clock of the ticks' Redis differs by %v from that of this host, by which ticks run: set the wrong one", ahead.Round(time.Second))
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.report(ofClocks, err, false)
}

// reason returns why the ticks before one are not run, if they are not.
func (l *loop) reason(tick fence.Tick) string {
	switch {
	case l.why != "":
		return l.why
	case tick.Prev.Before(l.term.Since()):
		return "no leader ran it in time"
	case l.ended.After(tick.Prev):
		return "the run before it lasted until " + l.ended.UTC().Format(time.RFC3339)
	}
	return "this leader did not run it in time"
}

// runNow runs the job by hand.
func (l *loop) runNow(loop context.Context, h byHand) error {
	if h.ctx.Err() != nil {
		return context.Cause(h.ctx)
	}
	if err := l.record(loop); err != nil {
		return fmt.Errorf("schedule: %s is not run: %w", l.Name, err)
	}
	ctx, cancel := context.WithCancelCause(loop)
	defer cancel(nil)
	defer context.AfterFunc(h.ctx, func() { cancel(fmt.Errorf("%w: %w", errCaller, context.Cause(h.ctx))) })()
	tick, err := l.latest()
	if err != nil {
		return err
	}
	tick.ByHand, tick.Attempt = true, fence.NewAttempt()
	if _, err = l.take(ctx, &tick); err != nil {
		l.unrecorded = func(ctx context.Context) error { return l.jobs.ticks.End(ctx, tick, fence.NothingDone, err) }
		_ = l.record(loop) // the request may have been executed
		return fmt.Errorf("schedule: %s is not run: %w", l.Name, err)
	}
	return l.run(ctx, tick)
}

// run runs the job for a tick that was taken, or by hand, and records how that ended. It returns why, unless it ended well.
func (l *loop) run(ctx context.Context, tick fence.Tick) error {
	run := Run{Job: l.Name, Tick: tick.At, Token: tick.Token}
	if tick.ByHand {
		run.Tick = time.Time{}
	}
	outcome, err := l.execute(ctx, run)
	l.ended = l.jobs.now()
	l.unrecorded = func(ctx context.Context) error { return l.jobs.ticks.End(ctx, tick, outcome, err) }
	if err != nil && (l.owed == nil || outcome != fence.NothingDone) { // not each second
		l.jobs.log().Warn("job failed", "job", l.Name, "tick", run.Tick, "outcome", string(outcome), "error", fmt.Sprintf("%.1000s", err))
	}
	if tick.ByHand {
		_ = l.record(ctx) // otherwise with the next tick
		return err
	}
	if l.owed = nil; outcome == fence.NothingDone {
		l.owed = err
	} else {
		l.decided = tick.At
	}
	return cmp.Or(l.record(ctx), l.owed)
}

// execute calls Do, waits until it has returned, and returns how it ended.
func (l *loop) execute(ctx context.Context, run Run) (fence.Outcome, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if l.Timeout > 0 {
		ctx, cancel = context.WithTimeoutCause(ctx, l.Timeout, errTimeout)
		defer cancel()
	}
	if ctx.Err() != nil || !l.term.Valid() {
		return fence.NothingDone, fmt.Errorf("%w: the term ended, or the job was removed, before it began", ErrNothingDone)
	}
	defer l.jobs.watch(ctx, l.Name)()
	done, panicked := make(chan error, 1), false
	go func() {
		err := errors.New("it called runtime.Goexit")
		defer func() {
			if v := recover(); v != nil {
				panicked, err = true, fmt.Errorf("panic: %.1000s", fmt.Sprint(v))
				l.jobs.log().Error("job panicked", "job", l.Name, "error", err, "stack", string(debug.Stack()))
			}
			done <- err
		}()
		err = l.Do(ctx, run)
	}()
	err := l.await(done)
	switch cause := context.Cause(ctx); {
	case err == nil && errors.Is(cause, errTimeout):
		return fence.TimedOut, errTimeout
	case err == nil:
		return fence.OK, nil
	case errors.Is(err, ErrNothingDone):
		return fence.NothingDone, err
	case panicked:
		return fence.Panicked, err
	case cause == nil || errors.Is(cause, errCaller):
		return fence.Failed, err
	case errors.Is(cause, errTimeout):
		return fence.TimedOut, err
	case errors.Is(cause, errRemoved):
		return fence.Removed, err
	}
	return fence.TermEnded, err
}

// await waits for the end of a run, and refuses others by hand.
func (l *loop) await(done <-chan error) error {
	for {
		select {
		case err := <-done:
			return err
		case h := <-l.byHand:
			h.done <- ErrRunning
		}
	}
}

// watch notes a run for Probe and RunNow. unwatch notes that it has returned.
func (j *Jobs) watch(ctx context.Context, name string) (unwatch func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.runs[name] = &running{ctx: ctx}
	return func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		delete(j.runs, name)
	}
}

// unlessEnded returns a context for a request that is made also if ctx has ended, but then only briefly.
func unlessEnded(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Err() != nil {
		return context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	}
	return context.WithTimeout(ctx, requestTimeout)
}

// record records how the newest run ended, unless that is recorded.
func (l *loop) record(ctx context.Context) error {
	if l.unrecorded == nil {
		return nil
	}
	ctx, cancel := unlessEnded(ctx)
	defer cancel()
	err := l.unrecorded(ctx)
	if err == nil {
		l.unrecorded = nil
	}
	return err
}

// leave ends the loop of a term.
func (l *loop) leave(ctx context.Context) {
	if err := l.record(ctx); err != nil {
		l.jobs.log().Warn("how a run ended is not recorded", "job", l.Name, "tick_lost", l.owed != nil, "error", err)
	}
	l.jobs.mu.Lock()
	gone := l.removed && l.jobs.all[l.Name] == l.job
	l.jobs.mu.Unlock()
	if gone { // from now on the job is not overdue
		ctx, cancel := unlessEnded(ctx)
		defer cancel()
		if _, err := l.jobs.ticks.Take(ctx, fence.Tick{Job: l.Name, Token: l.term.Token(), Missed: true}); !errors.Is(err, fence.ErrRan) && !errors.Is(err, fence.ErrNotDue) {
			l.jobs.log().Warn("a removed job may be reported as overdue", "job", l.Name, "error", err)
		}
	}
}

// report reports that ticks can be taken, or why not.
func (l *loop) report(ctx context.Context, err error) {
	if err != nil && ctx.Err() != nil || errors.Is(err, ErrNothingDone) {
		return
	}
	l.jobs.mu.Lock()
	defer l.jobs.mu.Unlock()
	shared := !errors.Is(err, fence.ErrStale) && !errors.Is(err, errBlocked) && !errors.Is(err, errSchedule)
	l.jobs.report(l.Name, err, shared && err != nil)
}
