package elector

import (
	"context"
	"log/slog"
	"sync/atomic"

	"github.com/mandate-dev/mandate/health"
)

// probes are the runners of Config.Probe and Config.WorkProbe; nil: always healthy.
// The result of the work's probe counts only while that is armed.
type probes struct {
	candidate *health.Runner
	work      *health.Runner
	log       *slog.Logger
	armed     atomic.Bool

	stop context.CancelFunc // of the work's probe, in the newest term
	over chan struct{}      // closed when its runner has returned
}

func (p *probes) names() (all []string) {
	if p.candidate != nil {
		all = append(all, "candidate")
	}
	if p.work != nil {
		all = append(all, "work")
	}
	return all
}

// failing returns the error of a probe that fails, nil if all are healthy. It only reads the runners'
// status, in memory.
func (p *probes) failing() error {
	err := failing(p.candidate)
	if err == nil && p.armed.Load() {
		err = failing(p.work)
	}
	return err
}

// fit reports whether the candidate's own probe lets it campaign.
func (p *probes) fit() bool { return failing(p.candidate) == nil }

func failing(r *health.Runner) error {
	if r == nil {
		return nil
	}
	return r.Status().Err
}

// changed returns a channel that is closed by the next change of health; nil where there is no probe.
func changed(r *health.Runner) <-chan struct{} {
	if r == nil {
		return nil
	}
	return r.Changed()
}

// report logs that a probe did not stop, and was left behind in its goroutine.
func (p *probes) report(err error) {
	if err != nil {
		p.log.Warn("probe did not stop", "error", err)
	}
}

// arm starts the work's probe for a term: the start counts as its first success.
func (p *probes) arm() {
	if p.work == nil {
		return
	}
	over := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	p.stop, p.over = cancel, over
	started := p.work.Changed()
	go func() {
		defer close(over)
		p.report(p.work.RunArmed(ctx))
	}()
	select {
	case <-started:
	case <-over: // the runner of the term before was left behind: the work counts as unhealthy
	}
	p.armed.Store(true)
}

// disarm stops the work's probe without waiting.
func (p *probes) disarm() {
	if p.work != nil {
		p.armed.Store(false)
		p.stop()
	}
}

// awaitDisarmed blocks until the runner of the work's probe has returned.
func (p *probes) awaitDisarmed() {
	if p.work != nil {
		<-p.over
	}
}
