package health

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// NewRunner returns a runner for p. It returns the problems of s (see
// [Settings.Validate]), or an error when p is nil.
func NewRunner(p Probe, s Settings) (*Runner, error) {
	if p == nil {
		return nil, errors.New("health: NewRunner: the probe is nil")
	}
	if err := s.Validate(); err != nil {
		return nil, err
	}
	return &Runner{
		probe:    p,
		settings: s.WithDefaults(),
		since:    time.Now(),
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
	r.reset()
	r.mu.Unlock()
	// Deferred, so that a panic in Arm leaves no runner that counts as running.
	defer r.finish()

	if armed {
		arm(r.probe)
		defer disarm(r.probe)
		r.armed(time.Now())
	}
	r.loop(ctx)
	r.stop() // unhealthy from here on, also while leave waits for a hung probe
	return r.leave()
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
	sleep(ctx, time.Until(next))
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// leave waits, for at most Timeout, for a probe run that should have ended with its context.
func (r *Runner) leave() error {
	idle := r.flight.idle()
	if idle == nil {
		return nil
	}
	timer := time.NewTimer(r.settings.Timeout)
	defer timer.Stop()
	select {
	case <-idle:
		return nil
	case <-timer.C:
		return fmt.Errorf("health: the probe ignored the end of its context for %s and was left behind", short(r.settings.Timeout))
	}
}
