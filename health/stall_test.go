package health

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestProbeHangsForEverCountsAndLeavesOneGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := newHang()
		r := newRunner(t, Named("db", stuck), Settings{})
		stop := start(t, r, r.RunArmed)
		wantHealthy(t, r, "the start counts as a success")
		before := runtime.NumGoroutine()
		fallsAfter(t, r, 3*time.Second)
		wantUnhealthy(t, r, "db: no answer for 3s", "still hangs")
		time.Sleep(time.Hour)
		if got := stuck.calls.Load(); got != 1 {
			t.Errorf("asked %d times", got)
		}
		if got := runtime.NumGoroutine(); got > before {
			t.Errorf("%d goroutines, before %d", got, before)
		}
		from := time.Now()
		time.AfterFunc(1, func() { wantUnhealthy(t, r, "stopped") }) // while the probe is waited for
		wantMessage(t, stop(), "ignored the end of its context")
		if got := time.Since(from); got > 1100*time.Millisecond {
			t.Errorf("it took %s to give up on the probe", got)
		}

		// The next term meets the same hung call: still no second one.
		stop = start(t, r, r.RunArmed)
		wantHealthy(t, r, "a new term starts anew")
		fallsAfter(t, r, 2*time.Second) // known to hang from the first run on
		if got := stuck.calls.Load(); got != 1 {
			t.Errorf("asked %d times", got)
		}
		close(stuck.release)
		time.Sleep(1500 * time.Millisecond)
		wantHealthy(t, r, "after it came back")
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestFreshnessTripsByTimeAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hung atomic.Bool
		release := make(chan struct{})
		r := newRunner(t, FromCheck(func() error {
			if hung.Load() {
				<-release
			}
			return nil
		}), Settings{MaxAge: 20 * time.Second})
		// Settings let the failures be counted first; with so many allowed only the age is left.
		r.settings.Failures = 1000
		start(t, r, r.Run)
		wantHealthy(t, r, "at first")
		hung.Store(true)
		fallsAfter(t, r, 20*time.Second)
		wantUnhealthy(t, r, "no success for 20s (bound 20s), last: no answer for 1")
		time.Sleep(5 * time.Second)
		wantUnhealthy(t, r, "no success for 25s (bound 20s)")
		hung.Store(false)
		close(release)
		time.Sleep(2 * time.Second)
		wantHealthy(t, r, "after it came back")
	})
}

func TestStalledHeartbeatTripsAtItsBoundNotAtTheInterval(t *testing.T) {
	for _, p := range []struct {
		name string
		wrap func(*Heartbeat) Probe
	}{
		{"alone", func(h *Heartbeat) Probe { return h }},
		{"in All", func(h *Heartbeat) Probe { return Named("work", All(Func(pass), Named("poller", h))) }},
		{"in All, before another probe", func(h *Heartbeat) Probe { return All(h, Func(pass)) }},
		{"in All, before a patient one", func(h *Heartbeat) Probe { return All(h, NewHeartbeat(time.Hour)) }},
		{"in All, after a patient one", func(h *Heartbeat) Probe { return All(NewHeartbeat(time.Hour), h) }},
	} {
		t.Run(p.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := NewHeartbeat(2 * time.Second)
				r := newRunner(t, p.wrap(h), Settings{Interval: 10 * time.Second})
				stop := start(t, r, r.RunArmed)
				for range 123 {
					time.Sleep(1500 * time.Millisecond)
					h.Beat()
				}
				wantHealthy(t, r, "while it beats")
				fallsAfter(t, r, 2*time.Second)
				wantUnhealthy(t, r, "no progress for 2s (bound 2s)")
				if err := stop(); err != nil {
					t.Error(err)
				}
				wantMessage(t, h.Check(t.Context()), "not armed")

				stop = start(t, r, r.RunArmed) // the next term is armed anew
				wantHealthy(t, r, "in the next term")
				fallsAfter(t, r, 2*time.Second)
				_ = stop()
			})
		})
	}
}

func TestFailuresWithinTheStartGraceDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, p := range map[string]Probe{
			"failing":   failing("port closed"),
			"heartbeat": NewHeartbeat(time.Second),
			"hanging":   Func(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }),
		} {
			r := newRunner(t, p, Settings{StartGrace: 30 * time.Second})
			stop := start(t, r, r.RunArmed)
			change := r.Changed()
			time.Sleep(29 * time.Second)
			wantHealthy(t, r, name+" within the grace")
			if st := r.Status(); st.LastErr == nil {
				t.Errorf("%s: %+v", name, st)
			}
			from := time.Now()
			<-change
			if got := time.Since(from); got > 7*time.Second {
				t.Errorf("%s: fell %s after the 29th second", name, got)
			}
			wantUnhealthy(t, r)
			_ = stop()
		}
	})
}
