package health

import (
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
