package elector

import "context"

// health asks the runners, in memory; nil means healthy.
func (e *Elector) health() error {
	if e.candidate != nil {
		if st := e.candidate.Status(); !st.Healthy {
			return st.Err
		}
	}
	if e.worker == nil {
		return nil
	}
	if t := e.term.Load(); t != nil && t.armed.Load() {
		if st := e.worker.Status(); !st.Healthy {
			return st.Err
		}
	}
	return nil
}

// reportProbe reports a probe that had to be left behind in its goroutine.
func (e *Elector) reportProbe(err error) {
	if err != nil {
		e.log.Warn("probe did not stop", "error", err)
	}
}

// startProbe arms the work's probe: its start counts as the first success.
func (l *leadership) startProbe() {
	l.probeDone = make(chan struct{})
	if l.e.worker == nil {
		close(l.probeDone)
		l.stopProbe = func() {}
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.stopProbe = cancel
	started := l.e.worker.Changed()
	go func() {
		defer close(l.probeDone)
		l.e.reportProbe(l.e.worker.RunArmed(ctx))
	}()
	select {
	case <-started:
	case <-l.probeDone: // left behind by the term before: it counts as unhealthy
	}
	l.term.armed.Store(true)
}

// changes are the channels that tell of a change of health.
type changes struct{ candidate, worker <-chan struct{} }

func (l *leadership) healthChanges() (c changes) {
	if l.e.candidate != nil {
		c.candidate = l.e.candidate.Changed()
	}
	if l.e.worker != nil {
		c.worker = l.e.worker.Changed()
	}
	return c
}

// candidateChanged is closed with the next change of the candidate's probe.
func (e *Elector) candidateChanged() <-chan struct{} {
	if e.candidate == nil {
		return nil
	}
	return e.candidate.Changed()
}
