package health

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"
)

// NewRunner returns a runner for p. It returns the problems of s (see [Settings.Validate]), or an error when p
// is nil, also as a nil pointer, or a [Heartbeat] that can never pass.
func NewRunner(p Probe, s Settings) (*Runner, error) {
	if v := reflect.ValueOf(p); p == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, errors.New("health: NewRunner: the probe is nil")
	}
	if h, ok := p.(*Heartbeat); ok && h.problem() != nil {
		return nil, fmt.Errorf("health: %w", h.problem())
	}
	if err := s.Validate(); err != nil {
		return nil, err
	}
	return &Runner{
		probe:    p,
		settings: s.WithDefaults(),
		status:   Status{Since: time.Now()},
		changed:  make(chan struct{}),
	}, nil
}

// Run runs the probe at once and then every Interval until ctx ends, in the role of a
// candidate probe: unhealthy until the first success.
//
// Run blocks until ctx ends, and then at most Timeout longer for a probe run that is under
// way. It returns nil, or an error when this runner is running already (at once, changing
// nothing), or when the probe ignored the end of its context and had to be left behind in
// its goroutine. As long as that goroutine lives, a later Run starts no second one.
func (r *Runner) Run(ctx context.Context) error { return r.run(ctx, false) }

// RunArmed is like Run in the role of a work probe, for one term: the start counts as the first
// success, failures within StartGrace don't count, and the probe is armed first and
// disarmed before RunArmed returns (see [Armer]).
//
// Before RunArmed has started the status is unhealthy. A caller that starts it in a goroutine
// and then reads the status waits for the start with Changed, whose channel it always closes:
//
//	started := runner.Changed()
//	go func() { done <- runner.RunArmed(ctx) }()
//	select {
//	case <-started:
//	case err := <-done: // it was running already
//	}
func (r *Runner) RunArmed(ctx context.Context) error { return r.run(ctx, true) }

func (r *Runner) run(ctx context.Context, armed bool) error {
	r.mu.Lock()
	if r.running {
		r.mu.Unlock()
		return errors.New("health: this runner is running already: make one runner for each use")
	}
	r.course, r.status.LastErr = course{running: true, looping: true, started: time.Now()}, nil
	r.mu.Unlock()
	defer r.stop(false)

	if armed {
		defer func() {
			defer func() { _ = recover() }() // of Disarm: the term is over
			armer(r.probe, Armer.Disarm)
		}()
		r.unarmed = r.arm()
		r.armed(time.Now())
	}
	r.loop(ctx)
	r.stop(true) // unhealthy from here on, also while leave waits for a hung probe
	return r.leave()
}

// arm arms the probe. A panic is a failure.
func (r *Runner) arm() (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = Definite(fmt.Errorf("panic: %v", v))
		}
	}()
	armer(r.probe, Armer.Arm)
	return nil
}

// loop runs the probe again and again, and returns when ctx ends.
func (r *Runner) loop(ctx context.Context) {
	for ctx.Err() == nil {
		start := time.Now()
		err := r.probeOnce(ctx)
		if ctx.Err() != nil {
			return // the answer to a cancelled run shows nothing about health
		}
		r.record(start, time.Now(), err)
		r.rest(ctx, start)
	}
}

// probeOnce runs the probe once. It returns within Timeout, whatever the probe does.
func (r *Runner) probeOnce(ctx context.Context) error {
	if r.unarmed != nil {
		return r.unarmed
	}
	timeout := r.settings.Timeout
	grace := min(timeout/20, 20*time.Millisecond)
	ctx, cancel := context.WithTimeout(ctx, timeout-grace)
	defer cancel()
	return r.flight.check(ctx, r.probe, grace)
}

// rest sleeps until the next run is due, a whole number of intervals after start.
func (r *Runner) rest(ctx context.Context, start time.Time) {
	interval := r.settings.Interval
	next := start.Add(interval)
	if late := time.Since(next); late >= 0 {
		next = next.Add(late - late%interval + interval) // skipped starts are not made up for
	}
	select {
	case <-time.After(time.Until(next)):
	case <-ctx.Done():
	}
}

// leave waits, for at most Timeout, for a probe run that should have ended with its context.
func (r *Runner) leave() error {
	idle := r.flight.idle()
	if idle == nil {
		return nil
	}
	select {
	case <-idle:
		return nil
	case <-time.After(r.settings.Timeout):
		return fmt.Errorf("health: the probe ignored the end of its context for %s and was left behind", short(r.settings.Timeout))
	}
}

// The largest values of Settings: of each time, also of Failures x (Interval + Timeout),
// and of Failures.
const (
	MaxTime  = 24 * time.Hour
	MaxCount = 1000
)

// Settings define how often a [Runner] runs its probe and how it counts the results. Zero means
// the default; the zero value is useful. No time is above MaxTime, and Failures is at most MaxCount.
type Settings struct {
	// Interval between the starts of two probe runs. Default 1 s, at least 1 ms. A run
	// that takes longer skips starts; they are not made up for.
	Interval time.Duration

	// Timeout of one run, after which it counts as failed. Default 1 s, at least 1 ms.
	// The context of the run ends a twentieth (at most 20 ms) earlier, so that the
	// probe's own error can still arrive in time.
	Timeout time.Duration

	// StartGrace is the time after the start of [Runner.RunArmed] during which failures don't
	// count, not even definite ones. It applies to the runs that began in that time. Default 0.
	// Run ignores it.
	StartGrace time.Duration

	// Failures in a row to become unhealthy. Default 3. One success makes it healthy again.
	Failures int
}

// WithDefaults returns s with the defaults in place of zeros.
func (s Settings) WithDefaults() Settings {
	s.Interval = cmp.Or(s.Interval, time.Second)
	s.Timeout = cmp.Or(s.Timeout, time.Second)
	s.Failures = cmp.Or(s.Failures, 3)
	return s
}

// Validate returns all problems of s at once, each with what to do, joined with
// errors.Join; nil when there are none. It looks at s with the defaults in place.
func (s Settings) Validate() error {
	d := s.WithDefaults()
	var problems []error
	add := func(format string, args ...any) {
		problems = append(problems, fmt.Errorf("health: "+format, args...))
	}
	for _, f := range []struct {
		name  string
		value time.Duration
	}{{"Interval", s.Interval}, {"Timeout", s.Timeout}, {"StartGrace", s.StartGrace}} {
		switch {
		case f.value < 0:
			add("%s is %s: give a time above zero, or 0 for the default", f.name, f.value)
		case f.value > 0 && f.value < time.Millisecond:
			add("%s is %s: give at least 1ms (was the unit forgotten, as in 5 instead of 5*time.Second?)", f.name, f.value)
		case f.value > MaxTime:
			add("%s is %s: give at most %s", f.name, f.value, MaxTime)
		}
	}
	if d.Failures < 0 || d.Failures > MaxCount {
		add("Failures is %d: give 1 to %d, or 0 for the default of 3", d.Failures, MaxCount)
	}
	if min(d.Interval, d.Timeout, time.Duration(d.Failures)) < 0 || max(d.Interval, d.Timeout) > MaxTime || d.Failures > MaxCount {
		return errors.Join(problems...) // the product below would mean nothing
	}
	if falls := time.Duration(d.Failures) * (d.Interval + d.Timeout); falls > MaxTime {
		add("Failures x (Interval + Timeout) = %d x (%s + %s) = %s, above %s: lower one of them", d.Failures, d.Interval, d.Timeout, falls, MaxTime)
	}
	return errors.Join(problems...)
}
