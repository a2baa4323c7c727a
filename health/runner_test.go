package health

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestCandidateIsUnhealthyUntilTheFirstSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := new(switchable)
		r := newRunner(t, p, Settings{Successes: 2})
		created := time.Now()
		wantUnhealthy(t, r, "not started")
		time.Sleep(time.Minute)
		p.set(errors.New("db: refused"))
		stop := start(t, r, r.Run)
		wantUnhealthy(t, r, "db: refused")
		time.Sleep(10500 * time.Millisecond)
		if st := r.Status(); st.Since != created || !st.LastSuccess.IsZero() || st.ConsecutiveFailures != 11 {
			t.Errorf("%+v", st)
		}
		p.set(nil)
		time.Sleep(time.Second)
		wantHealthy(t, r, "one success is enough at the start")
		if st := r.Status(); st.LastSuccess != st.Since || st.ConsecutiveFailures != 0 || st.LastErr != nil {
			t.Errorf("%+v", st)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		wantUnhealthy(t, r, "stopped")
	})
}

func TestNoAnswerYetIsUnhealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, Func(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }), Settings{})
		start(t, r, r.Run)
		wantUnhealthy(t, r, "no answer yet")
		time.Sleep(1001 * time.Millisecond)
		wantUnhealthy(t, r, "no answer within 1s")
	})
}

func TestProbeFailsThreeTimesThenRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := new(switchable)
		r := newRunner(t, p, Settings{Successes: 2})
		start(t, r, r.Run)
		sentinel := errors.New("disk full")
		p.set(sentinel)
		time.Sleep(2500 * time.Millisecond)
		wantHealthy(t, r, "after two failures")
		if st := r.Status(); st.ConsecutiveFailures != 2 || !errors.Is(st.LastErr, sentinel) {
			t.Errorf("the failures must show before the fall: %+v", st)
		}
		fallsAfter(t, r, 500*time.Millisecond)
		if st := r.Status(); !errors.Is(st.Err, sentinel) || st.Since != time.Now() {
			t.Errorf("%+v", st)
		}
		p.set(nil)
		time.Sleep(1500 * time.Millisecond)
		wantUnhealthy(t, r, "recovering, 1 of 2 successes", "disk full")
		p.set(sentinel) // the row of successes breaks
		time.Sleep(time.Second)
		p.set(nil)
		time.Sleep(time.Second)
		wantUnhealthy(t, r, "recovering, 1 of 2")
		time.Sleep(time.Second)
		wantHealthy(t, r, "after two successes in a row")
	})
}

func TestProbeThatFailsOneInThreeNeverFalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		r := newRunner(t, Func(func(context.Context) error {
			if n++; n%3 == 0 {
				return errors.New("flapping")
			}
			return nil
		}), Settings{})
		start(t, r, r.Run)
		change := r.Changed()
		select {
		case <-change:
			t.Errorf("changed: %+v", r.Status())
		case <-time.After(time.Hour):
		}
	})
}

func TestSlowProbeWithinItsTimeoutNeverFalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int32
		r := newRunner(t, Func(func(context.Context) error {
			runs.Add(1)
			time.Sleep(900 * time.Millisecond)
			return nil
		}), Settings{Interval: 100 * time.Millisecond})
		start(t, r, r.Run)
		time.Sleep(950 * time.Millisecond)
		change := r.Changed()
		select {
		case <-change:
			t.Errorf("changed: %+v", r.Status())
		case <-time.After(time.Minute):
		}
		if n := runs.Load(); n < 55 || n > 65 { // each takes 900 ms and ends on the next 100 ms: no burst
			t.Errorf("%d runs in a minute", n)
		}
	})
}

func TestStartsStayOnTheGridOfIntervals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var starts []time.Duration
		r := newRunner(t, Func(func(ctx context.Context) error {
			starts = append(starts, time.Since(began))
			if len(starts) == 2 { // one slow run skips one start
				time.Sleep(1500 * time.Millisecond)
			} else {
				time.Sleep(300 * time.Millisecond)
			}
			return nil
		}), Settings{Timeout: 2 * time.Second})
		stop := start(t, r, r.Run)
		time.Sleep(4500 * time.Millisecond)
		if err := stop(); err != nil {
			t.Error(err)
		}
		want := []time.Duration{0, time.Second, 3 * time.Second, 4 * time.Second}
		if len(starts) != len(want) {
			t.Fatalf("started at %v, want %v", starts, want)
		}
		for i := range want {
			if starts[i] != want[i] {
				t.Errorf("started at %v, want %v", starts, want)
			}
		}
	})
}

func TestRunnerIsSingleFlightAndStopsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, Func(pass), Settings{})
		stop := start(t, r, r.Run)
		wantMessage(t, r.Run(t.Context()), "running already")
		wantMessage(t, r.RunArmed(t.Context()), "running already")
		wantHealthy(t, r, "the refused calls change nothing")
		change := r.Changed()
		if err := stop(); err != nil {
			t.Error(err)
		}
		<-change
		if _, err := NewRunner(nil, Settings{}); err == nil {
			t.Error("NewRunner took a nil probe")
		}
	})
}

func TestProbeThatRespectsItsContextIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var returned atomic.Bool
		r := newRunner(t, Func(func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(500 * time.Millisecond) // cleaning up
			returned.Store(true)
			return ctx.Err()
		}), Settings{})
		stop := start(t, r, r.Run)
		if err := stop(); err != nil {
			t.Error(err)
		}
		if !returned.Load() {
			t.Error("Run returned before its probe")
		}
	})
}

func TestStartIsSeenThroughChangedEvenWithAnEndedContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := new(switchable)
		r := newRunner(t, p, Settings{})
		started := r.Changed()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := r.RunArmed(ctx); err != nil {
			t.Error(err)
		}
		<-started
		wantUnhealthy(t, r, "stopped")
		if p.calls.Load() != 0 {
			t.Error("asked although the context had ended")
		}
	})
}

func TestPanicInArmLeavesNoRunningRunner(t *testing.T) {
	r := newRunner(t, badArmer{}, Settings{})
	func() {
		defer func() { _ = recover() }()
		_ = r.RunArmed(t.Context())
		t.Error("no panic")
	}()
	wantUnhealthy(t, r, "stopped")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Run(ctx); err != nil {
		t.Error(err)
	}
}

type badArmer struct{ Func }

func (badArmer) Arm()    { panic("bad") }
func (badArmer) Disarm() {}

func TestStatusDuringManyChangesIsConsistent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		r := newRunner(t, Func(func(context.Context) error {
			if n++; n%2 == 0 {
				return errors.New("odd")
			}
			return nil
		}), Settings{Failures: 1, Interval: time.Millisecond, Timeout: time.Millisecond, MaxAge: 2 * time.Millisecond})
		stop := start(t, r, r.Run)
		for range 4 {
			go func() {
				for t.Context().Err() == nil {
					change := r.Changed()
					if st := r.Status(); st.Healthy != (st.Err == nil) {
						t.Errorf("%+v", st)
					}
					select {
					case <-change:
					case <-t.Context().Done():
					}
				}
			}()
		}
		time.Sleep(time.Second)
		_ = stop()
	})
}

func BenchmarkStatus(b *testing.B) {
	r, err := NewRunner(Func(pass), Settings{})
	if err != nil {
		b.Fatal(err)
	}
	r.reset()
	r.record(time.Now(), time.Now(), nil)
	b.ReportAllocs()
	for b.Loop() {
		_ = r.Status()
	}
	r.finish()
}

// What the metrics are made of.
func TestStatusCountsTheRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		r := newRunner(t, Func(func(context.Context) error {
			time.Sleep(100 * time.Millisecond)
			if n++; n == 2 {
				return errors.New("flapping")
			}
			return nil
		}), Settings{})
		for range 2 { // they go on counting in the next run
			stop := start(t, r, r.Run)
			time.Sleep(1500 * time.Millisecond)
			if err := stop(); err != nil {
				t.Error(err)
			}
		}
		if st := r.Status(); st.Runs != 4 || st.Failures != 1 || st.Took != 400*time.Millisecond || st.LastDuration != 100*time.Millisecond {
			t.Errorf("%+v", st)
		}
	})
}
