package health

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// start runs r in the bubble until the test ends (or stop is called) and waits for the
// first probe run.
func start(t *testing.T, r *Runner, run func(context.Context) error) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	var err error
	ended := false
	stop = func() error {
		if !ended {
			cancel()
			err, ended = <-done, true
		}
		return err
	}
	t.Cleanup(func() { _ = stop() })
	synctest.Wait()
	return stop
}

func newRunner(t *testing.T, p Probe, s Settings) *Runner {
	t.Helper()
	r, err := NewRunner(p, s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func wantHealthy(t *testing.T, r *Runner, when string) {
	t.Helper()
	if st := r.Status(); !st.Healthy || st.Err != nil {
		t.Errorf("%s: unhealthy (%v)", when, st.Err)
	}
}

func wantUnhealthy(t *testing.T, r *Runner, words ...string) {
	t.Helper()
	st := r.Status()
	if st.Healthy {
		t.Errorf("healthy, want unhealthy with %q", words)
	}
	wantMessage(t, st.Err, words...)
}

// fallsAfter waits for the next change, which must be to unhealthy, after exactly want.
func fallsAfter(t *testing.T, r *Runner, want time.Duration) {
	t.Helper()
	from := time.Now()
	select {
	case <-r.Changed():
	case <-time.After(want + time.Hour):
	}
	if got := time.Since(from); got != want {
		t.Errorf("changed after %s, want %s", got, want)
	}
	if r.Status().Healthy {
		t.Error("changed to healthy")
	}
}

// switchable passes until it is set to fail or to hang, and counts.
type switchable struct {
	bad   atomic.Pointer[error]
	hangs atomic.Pointer[chan struct{}]
	calls atomic.Int32
}

func (s *switchable) Check(context.Context) error {
	s.calls.Add(1)
	if hang := s.hangs.Load(); hang != nil {
		<-*hang
	}
	if err := s.bad.Load(); err != nil {
		return *err
	}
	return nil
}

func (s *switchable) set(err error) {
	if err == nil {
		s.bad.Store(nil)
	} else {
		s.bad.Store(&err)
	}
}
