package electortest

import (
	"context"
	"sync"
)

// Probe is a health.Probe whose result the test sets, for Config.Probe or
// Config.WorkProbe. The zero value passes. Safe for concurrent use.
//
// An elector reacts to it as to any probe: after the failures, intervals and
// time-outs of its health.Settings.
type Probe struct {
	mu   sync.Mutex
	err  error
	hung bool
}

// Pass makes every run from now on succeed.
func (p *Probe) Pass() { p.set(nil, false) }

// Fail makes every run from now on fail with err.
func (p *Probe) Fail(err error) { p.set(err, false) }

// Hang makes every run from now on last until its time-out.
func (p *Probe) Hang() { p.set(nil, true) }

func (p *Probe) set(err error, hung bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err, p.hung = err, hung
}

// Check implements health.Probe.
func (p *Probe) Check(ctx context.Context) error {
	p.mu.Lock()
	err, hung := p.err, p.hung
	p.mu.Unlock()
	if hung {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return err
}
