package health

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// What an earlier run left behind must speak neither for the next one nor against it.
func TestEachRunStartsAnew(t *testing.T) {
	passed := func(t *testing.T, r *Runner, _ *switchable) {
		stop := start(t, r, r.Run)
		wantHealthy(t, r, "the earlier run")
		_ = stop()
	}
	fell := func(t *testing.T, r *Runner, p *switchable) {
		stop := start(t, r, r.RunArmed)
		p.set(errors.New("disk full"))
		time.Sleep(5 * time.Second)
		wantUnhealthy(t, r, "disk full")
		_ = stop()
	}
	tooOld := func(t *testing.T, r *Runner, _ *switchable) {
		r.mu.Lock()
		r.reset()
		r.mu.Unlock()
		r.record(time.Now(), time.Now().Add(time.Second), nil) // the last word of a loop that hangs from here on
		time.Sleep(time.Minute)
		wantUnhealthy(t, r, "no answer for")
		r.finish()
	}
	atTheEdge := func(t *testing.T, r *Runner, p *switchable) {
		stop := start(t, r, r.RunArmed)
		p.set(errors.New("disk full"))
		time.Sleep(2500 * time.Millisecond)
		wantHealthy(t, r, "two failures of three")
		_ = stop()
	}
	for name, earlier := range map[string]func(*testing.T, *Runner, *switchable){
		"after it passed": passed, "after it fell": fell, "after it grew too old": tooOld, "after two failures": atTheEdge,
	} {
		for role, next := range map[string]func(t *testing.T, r *Runner, p *switchable){
			"no answer": func(t *testing.T, r *Runner, p *switchable) {
				p.turn(nil)
				defer p.release()
				start(t, r, r.Run)
				wantUnhealthy(t, r, "no answer yet, first checked 0s ago")
				st := r.Status()
				if st.LastErr != nil || !st.LastSuccess.IsZero() || st.LastDuration != 0 || st.ConsecutiveFailures != 0 {
					t.Errorf("the earlier run shows: %+v", st)
				}
			},
			"one success is enough": func(t *testing.T, r *Runner, p *switchable) {
				p.set(nil)
				start(t, r, r.Run)
				wantHealthy(t, r, "after the first success")
			},
			"failures count from the first": func(t *testing.T, r *Runner, p *switchable) {
				p.set(errors.New("db: refused"))
				start(t, r, r.RunArmed)
				wantHealthy(t, r, "the start counts as a success")
				fallsAfter(t, r, 2*time.Second)
				wantUnhealthy(t, r, "db: refused")
			},
			"a fall is from this run": func(t *testing.T, r *Runner, p *switchable) {
				p.set(errors.New("db: refused"))
				start(t, r, r.Run)
				time.Sleep(9500 * time.Millisecond)
				p.set(nil)
				time.Sleep(time.Second)
				wantHealthy(t, r, "never fallen, so one success is enough")
			},
		} {
			t.Run(name+"/"+role, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := new(switchable)
					r := newRunner(t, p, Settings{Successes: 2})
					earlier(t, r, p)
					next(t, r, p)
				})
			})
		}
	}
}

// Failures count from the end of the grace, and the age as well: neither earlier, which
// would make the grace worthless, nor later, which would leave a leader that does nothing
// in place for longer than its settings say.
func TestStartGraceCountsOnce(t *testing.T) {
	const grace, maxAge, many = 30 * time.Second, 20 * time.Second, 1000
	definite := Func(func(context.Context) error { return Definite(errors.New("x")) })
	slow := Func(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	for name, tc := range map[string]struct {
		probe    Probe         // nil: one that passes at first, and from then on ...
		then     time.Duration // ...
		err      error         // ... fails, or hangs when this is nil
		failures int
		want     time.Duration // from the start to the fall
	}{
		"failing":                        {probe: failing("port closed"), failures: 3, want: grace + 2*time.Second},
		"definite":                       {probe: definite, failures: 3, want: grace},
		"heartbeat":                      {probe: NewHeartbeat(time.Second), failures: 3, want: grace},
		"slow to say no":                 {probe: slow, failures: 3, want: grace + 2980*time.Millisecond},
		"failing, passed before":         {then: grace + 4500*time.Millisecond, err: errors.New("x"), failures: 3, want: grace + 7*time.Second},
		"silent from the start":          {then: 0, failures: many, want: grace + maxAge},
		"silent soon":                    {then: 4500 * time.Millisecond, failures: many, want: grace + maxAge},
		"silent from beyond the grace":   {then: grace + 4500*time.Millisecond, failures: many, want: grace + 4*time.Second + maxAge},
		"silent from the grace's end on": {then: grace - 500*time.Millisecond, failures: many, want: grace + maxAge},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, p, probe := time.Now(), new(switchable), tc.probe
				switch h := probe.(type) {
				case nil:
					probe = p
				case *Heartbeat:
					probe = NewHeartbeat(h.bound) // counts from the time of this bubble
				}
				r := newRunner(t, probe, Settings{StartGrace: grace, MaxAge: maxAge})
				r.settings.Failures = tc.failures
				time.AfterFunc(tc.then, func() { p.turn(tc.err) })
				synctest.Wait() // for one that is bad from the start
				t.Cleanup(p.release)
				start(t, r, r.RunArmed)
				<-r.Changed()
				if got := time.Since(began); got != tc.want || r.Status().Healthy {
					t.Errorf("fell after %v, want %v", got, tc.want)
				}
			})
		})
	}
}
