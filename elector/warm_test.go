package elector_test

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// warmth counts what a candidate's Warm does.
type warmth struct {
	begun, ready atomic.Int32
	takes        time.Duration
	fails        error
	panics, ends bool         // ends its goroutine
	ended        atomic.Int32 // its context ended first
}

func (w *warmth) config(cfg *elector.Config) {
	cfg.Succession = elector.SuccessionSeniority
	cfg.Warm = func(ctx context.Context) error {
		w.begun.Add(1)
		if w.panics {
			panic("cache")
		}
		if w.ends {
			runtime.Goexit()
		}
		select {
		case <-time.After(w.takes):
			w.ready.Add(1)
			return w.fails
		case <-ctx.Done():
			w.ended.Add(1)
			return ctx.Err()
		}
	}
}

// A planned handover waits until the next leader is warm, while the old one works on: at a shutdown, a resignation
// and a transfer. Others are not asked.
func TestAPlannedHandoverIsWarm(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, c *cluster, a *candidate){
		"shutdown": func(_ *testing.T, _ *cluster, a *candidate) { a.Shutdown() },
		"resign":   func(t *testing.T, _ *cluster, a *candidate) { _ = a.Resign(t.Context()) },
		"transfer": func(t *testing.T, c *cluster, _ *candidate) {
			_, _ = electionOf(c.Quorum("operator"), "orders").Transfer(t.Context(), "b")
		},
	} {
		t.Run(name, func(t *testing.T) {
			onAll(t, func(t *testing.T, c *cluster) {
				a := c.Start("a", (&warmth{}).config)
				term := a.Elected(3 * shortLease)
				var second, third warmth
				second.takes, third.takes = 4*time.Second, time.Second
				b := c.Start("b", second.config)
				time.Sleep(time.Second)
				c.Start("c", third.config)
				time.Sleep(shortLease)
				go end(t, c, a)
				time.Sleep(3500 * time.Millisecond)
				if !term.Valid() || second.begun.Load() != 1 || second.ready.Load() != 0 {
					t.Fatalf("valid %v, begun %d, ready %d", term.Valid(), second.begun.Load(), second.ready.Load())
				}
				b.Elected(time.Second)
				if second.ready.Load() != 1 || third.begun.Load() != 0 {
					t.Errorf("ready %d, others %d", second.ready.Load(), third.begun.Load())
				}
				time.Sleep(time.Second)
			})
		})
	}
}

// The wait has a bound, and a Warm's context ends with it.
func TestAColdHeirIsNotWaitedForLonger(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a := c.Start("a", (&warmth{}).config, func(cfg *elector.Config) { cfg.WarmTimeout = 3 * time.Second })
		a.Elected(3 * shortLease)
		hangs := warmth{takes: time.Hour}
		b := c.Start("b", hangs.config)
		time.Sleep(shortLease)
		began := time.Now()
		a.Shutdown()
		if took := time.Since(began); took < 3*time.Second || took > 3100*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		b.Elected(100 * time.Millisecond)
		if hangs.ended.Load() != 1 {
			t.Error("the context has not ended")
		}
	})
}

// Who fails to get warm is passed over for the next one; when none is left the handover is cold, and costs no
// reservation.
func TestWhoIsNotWarmIsPassedOver(t *testing.T) {
	for name, second := range map[string]*warmth{
		"fails": {fails: errors.New("no disk")}, "panics": {panics: true}, "ends its goroutine": {ends: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, c *cluster) {
				a := c.Start("a", (&warmth{}).config)
				a.Elected(3 * shortLease)
				third := warmth{takes: time.Second}
				b := c.Start("b", second.config)
				time.Sleep(time.Second)
				d := c.Start("d", third.config)
				time.Sleep(shortLease)
				a.Shutdown()
				d.Elected(100 * time.Millisecond)
				if third.ready.Load() != 1 || len(b.Log.Lines("not warm for leadership")) != 1 {
					t.Errorf("%d ready\n%s", third.ready.Load(), b.Log.Lines())
				}
				d.Shutdown()
				b.Elected(100 * time.Millisecond) // cold
			})
		})
	}
}

// A heir that is gone answers nothing, and is passed over within moments.
func TestADeadHeirIsPassedOver(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a := c.Start("a", (&warmth{}).config)
		a.Elected(3 * shortLease)
		var second, third warmth
		c.Start("b", second.config)
		time.Sleep(time.Second)
		d := c.Start("d", third.config)
		time.Sleep(shortLease)
		c.Each(cut, "b")
		began := time.Now()
		a.Shutdown()
		d.Elected(100 * time.Millisecond)
		if took := time.Since(began); took > 3*time.Second || third.ready.Load() != 1 {
			t.Errorf("it took %v, ready %d", took, third.ready.Load())
		}
	})
}

// An end that nobody planned waits for nothing: a leader that is cut off, whose probe fails, or whose work ends.
func TestAColdDeathDoesNotWait(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a := c.Start("a", (&warmth{}).config)
		a.Elected(3 * shortLease)
		slow := warmth{takes: time.Hour}
		b := c.Start("b", slow.config)
		time.Sleep(shortLease)
		c.Each(cut, "a")
		b.Elected(shortLease + time.Second)
		if slow.begun.Load() != 0 {
			t.Error("it was asked to get warm")
		}
	})
}

// A leader that dies while its heir gets warm is replaced as ever, and the context ends when the work begins.
func TestALeaderDiesWhileItsHeirGetsWarm(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a := c.Start("a", (&warmth{}).config, func(cfg *elector.Config) { cfg.WarmTimeout = time.Minute })
		a.Elected(3 * shortLease)
		slow := warmth{takes: time.Hour}
		b := c.Start("b", slow.config)
		time.Sleep(shortLease)
		go func() { _ = a.Resign(t.Context()) }()
		time.Sleep(time.Second)
		c.Each(cut, "a")
		b.Elected(shortLease + time.Second)
		time.Sleep(time.Millisecond)
		if slow.begun.Load() != 1 || slow.ended.Load() != 1 {
			t.Errorf("begun %d, ended %d", slow.begun.Load(), slow.ended.Load())
		}
	})
}
