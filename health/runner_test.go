package health

import (
	"context"
	"errors"
	"math"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestCandidateIsUnhealthyUntilTheFirstSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := new(switchable)
		r := newRunner(t, p, Settings{})
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
		must(t, stop())
		wantUnhealthy(t, r, "stopped")
	})
}

func TestProbeFailsThreeTimesThenRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := new(switchable)
		p.set(nil)
		r := newRunner(t, p, Settings{})
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
		wantHealthy(t, r, "after one success")
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
		must(t, stop())
		<-change
		if _, err := NewRunner(nil, Settings{}); err == nil {
			t.Error("NewRunner took a nil probe")
		}
	})
}

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
		must(t, stop())
	})
}

func TestStalledHeartbeatIsNoticedWithinAnInterval(t *testing.T) {
	for name, wrap := range map[string]func(*Heartbeat) Probe{
		"alone":  func(h *Heartbeat) Probe { return h },
		"in All": func(h *Heartbeat) Probe { return Named("work", All(Func(pass), Named("poller", h))) },
		"in All, beside one that hangs": func(h *Heartbeat) Probe {
			return All(h, Func(func(ctx context.Context) error { <-ctx.Done(); return nil }))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const bound, interval, timeout = 2 * time.Second, time.Second, time.Second / 2
				h := NewHeartbeat(bound)
				r := newRunner(t, wrap(h), Settings{Interval: interval, Timeout: timeout})
				for range 2 { // terms, each armed anew
					stop := start(t, r, r.RunArmed)
					for range 123 {
						time.Sleep(1700 * time.Millisecond)
						h.Beat()
					}
					wantHealthy(t, r, "while it beats")
					change, from := r.Changed(), time.Now()
					<-change
					if took := time.Since(from); took < bound || took > bound+interval+timeout {
						t.Errorf("noticed after %v", took)
					}
					wantUnhealthy(t, r, "no progress for 2")
					if err := stop(); err != nil {
						t.Error(err)
					}
					wantMessage(t, h.Check(t.Context()), "not armed")
				}
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

// A probe ignores the end of its context, and its answer comes in the next run: it was
// asked before that run began, and says nothing about it.
func TestAnswerOfAnEarlierRunIsNotFresh(t *testing.T) {
	for name, wrap := range map[string]func(func() error) Probe{
		"plain":     func(f func() error) Probe { return Func(func(context.Context) error { return f() }) },
		"FromCheck": FromCheck,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked atomic.Int32
				answer := make(chan error)
				r := newRunner(t, wrap(func() error {
					if asked.Add(1) == 1 {
						return <-answer
					}
					return errors.New("disk full")
				}), Settings{Interval: time.Second, Timeout: time.Second, Failures: 1})
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(100*time.Millisecond, cancel)
				_ = r.Run(ctx) // may say that the probe was left behind
				start(t, r, r.Run)
				time.Sleep(100 * time.Millisecond)
				answer <- nil
				synctest.Wait()
				if st := r.Status(); st.Healthy || asked.Load() != 2 {
					t.Errorf("healthy %v, asked %d times: the answer of the earlier run counts", st.Healthy, asked.Load())
				}
			})
		})
	}
}

// Two runners share a heartbeat: the end of one must not take it from the other.
func TestHeartbeatOfTwoRunners(t *testing.T) {
	h := NewHeartbeat(time.Minute)
	h.Disarm() // never armed
	h.Arm()
	h.Arm()
	h.Disarm()
	if err := h.Check(t.Context()); err != nil {
		t.Errorf("still armed by one: %v", err)
	}
	h.Disarm()
	h.Disarm()
	if err := h.Check(t.Context()); !errors.Is(err, errUnarmed) {
		t.Errorf("armed by none: %v", err)
	}
	h.Arm()
	if err := h.Check(t.Context()); err != nil {
		t.Errorf("armed again: %v", err)
	}
}

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
	must(t, err)
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

// switchable passes until it is set to fail.
type switchable struct{ bad atomic.Pointer[error] }

func (s *switchable) Check(context.Context) error { return *s.bad.Load() }
func (s *switchable) set(err error)               { s.bad.Store(&err) }

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSettingsAtTheirBounds(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name string
		s    Settings
		want []string // words of the problems, in order; none: valid
	}{
		{"zero", Settings{}, nil},
		{"one failure", Settings{Failures: 1, Interval: ms, Timeout: ms}, nil},
		{"interval of 1ms", Settings{Interval: ms}, nil},
		{"forgotten units", Settings{Interval: 5, Timeout: 1, StartGrace: 30}, []string{"Interval is 5ns", "Timeout is 1ns", "StartGrace is 30ns"}},
		{"interval below 1ms", Settings{Interval: ms - 1}, []string{"Interval is 999.999µs"}},
		{"only Failures is negative", Settings{Failures: -1}, []string{"Failures is -1"}},
		{"grace", Settings{StartGrace: time.Hour}, nil},
		{"all negative", Settings{-1, -1, -1, -1},
			[]string{"Interval is -1ns", "Timeout is -1ns", "StartGrace is -1ns", "Failures is -1"}},
		{"too many", Settings{Failures: 1001}, []string{"Failures is 1001: give 1 to 1000"}},
		{"too long", Settings{Interval: 24*time.Hour + 1, Timeout: math.MaxInt64}, []string{"Interval is 24h0m0.000000001s: give at most 24h0m0s", "Timeout is"}},
		{"too long together", Settings{Interval: 12 * time.Hour, Timeout: 12 * time.Hour}, []string{"3 x (12h0m0s + 12h0m0s) = 72h0m0s, above 24h0m0s"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.s.Validate()
			if len(c.want) == 0 {
				must(t, err)
				return
			}
			if err == nil {
				t.Fatal("no error")
			}
			lines := strings.Split(err.Error(), "\n")
			if len(lines) != len(c.want) {
				t.Fatalf("got %d problems, want %d:\n%v", len(lines), len(c.want), err)
			}
			for i, want := range c.want {
				if !strings.Contains(lines[i], want) {
					t.Errorf("problem %d is %q, want %q", i, lines[i], want)
				}
			}
			if _, err := NewRunner(Func(nil), c.s); err == nil {
				t.Error("NewRunner took it")
			}
		})
	}
}

// armed is a probe that panics when it is armed or disarmed.
type armed struct{ arm, disarm bool }

func (*armed) Check(context.Context) error { return nil }
func (a *armed) Arm()                      { a.panics(a.arm) }
func (a *armed) Disarm()                   { a.panics(a.disarm) }
func (*armed) panics(now bool) {
	if now {
		panic("oops")
	}
}

// A panic of Arm is a failure at once, also where Check passes, and one of Disarm ends no process; the next term begins anew.
func TestPanicOfArmAndDisarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &armed{true, true}
		r := newRunner(t, Named("port", All(p)), Settings{})
		stop := start(t, r, r.RunArmed)
		wantUnhealthy(t, r, "panic: oops")
		must(t, stop())
		p.arm = false
		start(t, r, r.RunArmed)
		wantHealthy(t, r, "armed")
	})
}

// Regression: a nil *Heartbeat, and one without a unit, ended each leader at its election.
func TestProbesThatCanNotWork(t *testing.T) {
	var none *Heartbeat
	for want, p := range map[string]Probe{
		"the probe is nil": none,
		"bound of 5ns: give NewHeartbeat at least 1m": NewHeartbeat(5),
		"bound of 0s: give NewHeartbeat at least 1ms": new(Heartbeat),
	} {
		if _, err := NewRunner(p, Settings{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
