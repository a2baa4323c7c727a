package elector_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

func TestWorkIgnoresItsContext(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		w, free := &ward{}, make(chan struct{})
		var overruns atomic.Int32
		a := makeCandidate(t, c.Quorum("a"), "a", probed(w), func(cfg *elector.Config) {
			cfg.Cooldown = time.Second
			cfg.OnOverrun = func(term *elector.Term) {
				overruns.Add(1)
				if term.Valid() {
					t.Error("an overrun of a valid term")
				}
			}
		})
		a.Begin(func(context.Context, *elector.Term) error { <-free; return nil })
		term := a.Elected(3 * shortLease)
		b := c.Start("b")
		events := watch(t, a)
		b.Quiet(shortLease)
		stop := never2(t, a, b)
		w.set(errors.New("disk full"))
		wantReason(t, term, 4*time.Second, elector.ReasonUnhealthy)
		w.set(nil) // it would like to lead again
		began := time.Now()
		if a.IsLeader() || term.Valid() {
			t.Error("leads after its end")
		}
		time.Sleep(shortLease / 2)
		if c.Locks() != 3 {
			t.Error("the lock was released under the running work")
		}
		two := b.Elected(shortLease)
		if d := time.Since(began); d < shortLease*3/4-time.Second || d > shortLease+time.Second {
			t.Errorf("b was elected %v after the step-down", d)
		}
		want(t, events, time.Second, elector.EventElected, "a", term.Token())
		want(t, events, shortLease, elector.EventStopping, "a", term.Token())
		if ev := want(t, events, shortLease, elector.EventOverrun, "a", term.Token()); ev.Reason != elector.ReasonUnhealthy {
			t.Errorf("event %+v", ev)
		}
		if n := overruns.Load(); n != 1 {
			t.Errorf("OnOverrun was called %d times", n)
		}
		if len(a.Log.Lines("work is still running after its lease expired")) != 1 {
			t.Error("not logged once")
		}
		if err := a.Check(); err == nil || !strings.Contains(err.Error(), "has not returned") {
			t.Errorf("Check: %v", err)
		}
		b.Shutdown()
		if two.Valid() {
			t.Error("b leads after its shutdown")
		}
		a.Quiet(5 * shortLease) // no candidate leads: no second local term
		close(free)
		if next := a.Elected(shortLease); next.Token() <= two.Token() {
			t.Errorf("token %d after %d", next.Token(), two.Token())
		}
		stop()
		if n := overruns.Load(); n != 1 {
			t.Errorf("OnOverrun was called %d times", n)
		}
	})
}

// After a voluntary end the lease is kept while the work drains, up to DrainTimeout.
func TestDrainTimeout(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		free := make(chan struct{})
		a := makeCandidate(t, c.Quorum("a"), "a", func(cfg *elector.Config) { cfg.DrainTimeout = 3 * shortLease })
		a.Begin(func(context.Context, *elector.Term) error { <-free; return nil })
		term := a.Elected(time.Minute)
		b := c.Start("b")
		b.Quiet(shortLease)
		a.Stop()
		wantReason(t, term, time.Second, elector.ReasonShutdown)
		b.Quiet(3*shortLease + shortLease/2)
		if len(a.Log.Lines("work is still running")) != 0 {
			t.Error("an overrun although the lease was kept")
		}
		b.Elected(shortLease)
		if len(a.Log.Lines("work is still running")) != 1 {
			t.Error("no overrun was reported")
		}
		close(free)
		if err := a.Ended(time.Second); err != nil {
			t.Error(err)
		}
	})
}

func TestWorkThatReturnsAtOnceMakesNoHotLoop(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a := makeCandidate(t, c.Quorum("a"), "a")
		a.Begin(func(context.Context, *elector.Term) error { return nil })
		a.Elected(3 * shortLease)
		time.Sleep(10 * shortLease)
		if n := len(a.Terms); n < 90 || n > 100 {
			t.Errorf("%d terms in 10 leases, want one per RestartDelay", n)
		}
	})
}

// Work that fails again and again is tried again after longer and longer rests, in which
// another candidate can lead; every term is recorded as failed, with its error.
func TestFailedWorkIsRetried(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		a := makeCandidate(t, c.Quorum("a"), "a", func(cfg *elector.Config) { cfg.RetryFailed, cfg.Cooldown = true, 2*time.Second })
		a.Begin(func(context.Context, *elector.Term) error { return errors.New("the table is locked") })
		rest := 2 * time.Second
		for range 6 {
			term := a.Elected(time.Minute)
			wantReason(t, term, time.Second, elector.ReasonFailed)
			ended := time.Now()
			next := a.Elected(time.Minute)
			if d := time.Since(ended); d < rest || d > rest+time.Second {
				t.Errorf("leads again after %v, want %v", d, rest)
			}
			rest = min(2*rest, 32*time.Second)
			a.Terms <- next
		}
		b := c.Start("b")
		b.Elected(time.Minute)
		time.Sleep(time.Second) // the end of the last term is announced in the background
		all, err := a.Election().History(t.Context(), 10)
		if err != nil || len(all) < 7 {
			t.Fatalf("%d terms, %v", len(all), err)
		}
		for _, r := range all[1:] {
			if r.Reason != elector.ReasonFailed || r.Detail != "the table is locked" {
				t.Errorf("%+v: recorded as %q (%s)", r, r.Reason, r.Detail)
			}
		}
		a.Shutdown()
	})
}

// Work that fails and is to run again at once is no work that has finished: the history
// tells why.
func TestRestartErrorIsRecordedAsFailed(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		const delay = 100 * time.Millisecond
		a := makeCandidate(t, c.Quorum("a"), "a", func(cfg *elector.Config) { cfg.RestartDelay, cfg.Cooldown = delay, time.Hour })
		cause := errors.New("exit status 3")
		a.Begin(func(context.Context, *elector.Term) error {
			return fmt.Errorf("the job: %w", &elector.RestartError{Err: cause})
		})
		for range 6 { // the delay never grows
			term := a.Elected(time.Minute)
			if ended := wantReason(t, term, time.Second, elector.ReasonFailed); !errors.Is(ended, cause) {
				t.Errorf("ended with %v", ended)
			}
			ended := time.Now()
			a.Terms <- a.Elected(time.Minute)
			if d := time.Since(ended); d < delay || d > 2*delay {
				t.Errorf("leads again after %v", d)
			}
		}
		time.Sleep(delay / 2) // the end of the last term is announced in the background
		all, err := a.Election().History(t.Context(), 10)
		if err != nil || len(all) < 6 {
			t.Fatalf("%d terms, %v", len(all), err)
		}
		for _, r := range all[1:] {
			if r.Reason != elector.ReasonFailed || r.Detail != "the job: exit status 3" {
				t.Errorf("recorded as %q (%s)", r.Reason, r.Detail)
			}
		}
		a.Shutdown()
	})
}

func TestGoexitEndsRun(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		a := makeCandidate(t, c.Quorum("a"), "a")
		a.Begin(func(context.Context, *elector.Term) error { runtime.Goexit(); return nil })
		term := a.Elected(time.Minute)
		if err := a.Ended(time.Minute); err == nil || !strings.Contains(err.Error(), "Goexit") {
			t.Errorf("Run returned %v", err)
		}
		wantReason(t, term, 0, elector.ReasonPanicked)
		if c.Locks() != 0 {
			t.Error("the lock was kept")
		}
		if past, err := a.Election().History(t.Context(), 1); err != nil || len(past) != 1 || past[0].Reason != elector.ReasonPanicked {
			t.Errorf("history: %+v, %v", past, err)
		}
	})
}

func TestSlowObserversDelayNothing(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		a := makeCandidate(t, c.Quorum("a"), "a")
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		var slow []<-chan elector.Event
		for range 20 {
			slow = append(slow, observe(ctx, a.Election())) // nobody reads
		}
		a.Begin(nil)
		term := a.Elected(time.Minute)
		for i := range 1000 {
			c.Nodes[0].Server().Publish("mandate:{orders}:events", `{"v":1,"kind":"released","election":"orders","token":1}`)
			if i%100 == 0 {
				time.Sleep(shortLease / 4)
			}
		}
		c.Nodes[0].Took()
		time.Sleep(10 * shortLease)
		var last time.Time
		for _, cl := range c.Nodes[0].Took() {
			if cl.Script != "renew" {
				continue
			}
			if d := cl.At.Sub(last); !last.IsZero() && d > shortLease/4+time.Millisecond {
				t.Errorf("a renewal after %v", d)
			}
			last = cl.At
		}
		if !term.Valid() {
			t.Errorf("lost: %v", term.Err())
		}
		began := time.Now()
		a.Shutdown()
		if d := time.Since(began); d > 100*time.Millisecond {
			t.Errorf("shutdown took %v", d)
		}
		cancel()
		for _, ch := range slow {
			n := 0
			for range ch {
				n++
			}
			if n > 1 {
				t.Errorf("%d events after the end", n)
			}
		}
	})
}
