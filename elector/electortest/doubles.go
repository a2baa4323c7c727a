package electortest

import (
	"context"
	"sync"
	"testing"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/module"
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

// NewTerm returns a term with that token, for a test that calls a work function itself, with
// no election and no Redis. The term is valid until end is called with the reason that the work
// is to see, until Resign or Close is called, or until the test ends. Its deadline is a day away.
//
//	term, end := electortest.NewTerm(t, 7)
//	go end(elector.ReasonLost)
//	err := work(term.Context(), term)
func NewTerm(t testing.TB, token uint64) (term *elector.Term, end func(elector.Reason)) {
	t.Helper()
	term, end = elector.UngrantedTerm(module.Only{}, token)
	t.Cleanup(func() { end(elector.ReasonShutdown) })
	return term, end
}
