package elector

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/mandate-dev/mandate/health"
)

// probes are the runners of Config.Probe and Config.WorkProbe; nil: always healthy.
// What the work's probe finds counts while it is armed.
type probes struct {
	candidate *health.Runner
	work      *health.Runner
	log       *slog.Logger
	armed     atomic.Bool
}

// failing reads the runners' status, in memory; nil means healthy.
func (p *probes) failing() error {
	if p.candidate != nil {
		if st := p.candidate.Status(); !st.Healthy {
			return st.Err
		}
	}
	if p.work != nil && p.armed.Load() {
		if st := p.work.Status(); !st.Healthy {
			return st.Err
		}
	}
	return nil
}

// fit reports whether the candidate's own probe lets it campaign.
func (p *probes) fit() bool { return p.candidate == nil || p.candidate.Status().Healthy }

// await blocks until the candidate's probe has answered; the error is that it fails.
func (p *probes) await(ctx context.Context) error {
	if p.candidate == nil {
		return nil
	}
	again := time.NewTicker(awaitProbe) // a first failure is no change of Healthy
	defer again.Stop()
	for {
		changed := p.candidate.Changed()
		switch st := p.candidate.Status(); {
		case st.Healthy:
			return nil
		case st.LastErr != nil:
			return failed(nil, "unhealthy: %w", st.Err)
		}
		select {
		case <-changed:
		case <-again.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// awaitProbe is how often the first answer of a probe is looked for.
const awaitProbe = 10 * time.Millisecond

// run runs the candidate's probe until ctx ends.
func (p *probes) run(ctx context.Context) { p.report(p.candidate.Run(ctx)) }

// report logs a probe that had to be left behind in its goroutine.
func (p *probes) report(err error) {
	if err != nil {
		p.log.Warn("probe did not stop", "error", err)
	}
}

// noProbe is the end of a runner where there is none.
var noProbe = func() <-chan struct{} {
	over := make(chan struct{})
	close(over)
	return over
}()

// arm starts the work's probe for a term: the start counts as its first success. disarm
// ends it, and does not wait; done is closed when its runner has returned.
func (p *probes) arm() (disarm func(), done <-chan struct{}) {
	if p.work == nil {
		return func() {}, noProbe
	}
	over := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	started := p.work.Changed()
	go func() {
		defer close(over)
		p.report(p.work.RunArmed(ctx))
	}()
	select {
	case <-started:
	case <-over: // left behind by the term before: it counts as unhealthy
	}
	p.armed.Store(true)
	return func() {
		p.armed.Store(false)
		cancel()
	}, over
}

// changes are the channels that are closed by a change of health; nil where there is
// no probe.
type changes struct{ candidate, work <-chan struct{} }

func (p *probes) changes() (c changes) {
	if p.candidate != nil {
		c.candidate = p.candidate.Changed()
	}
	if p.work != nil {
		c.work = p.work.Changed()
	}
	return c
}
