package health

import (
	"errors"
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
		if st := r.Status(); st.Since != created || st.Failures != 11 {
			t.Errorf("%+v", st)
		}
		p.set(nil)
		time.Sleep(time.Second)
		wantHealthy(t, r, "one success is enough at the start")
		if st := r.Status(); st.LastErr != nil {
			t.Errorf("%+v", st)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
		wantUnhealthy(t, r, "stopped")
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
		p.set(nil) // the row of failures breaks
		time.Sleep(time.Second)
		p.set(sentinel)
		time.Sleep(2 * time.Second)
		wantHealthy(t, r, "after two failures in a row")
		if st := r.Status(); st.Failures != 4 || !errors.Is(st.LastErr, sentinel) {
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
