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
	"github.com/mandate-dev/mandate/elector/internal/lease"
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

// Work that exits at once is started less and less often, and the newest term in the history tells how that began.
func TestWorkThatExitsAtOnceIsSlowedDown(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		runs := 0
		a := makeCandidate(t, c.Quorum("a"), "a")
		a.Begin(func(context.Context, *elector.Term) error {
			if runs++; runs == 1 {
				return &elector.RestartError{Err: errors.New("no such table")}
			}
			return &elector.RestartError{}
		})
		rest, began := shortLease/10, time.Now()
		for range 9 {
			a.Elected(20 * shortLease)
			ended := time.Now()
			next := a.Elected(20 * shortLease)
			if d := time.Since(ended); d < rest || d > rest+shortLease/10 {
				t.Errorf("leads again after %v, want %v", d, rest)
			}
			rest = min(2*rest, 128*shortLease/10)
			a.Terms <- next
		}
		time.Sleep(20 * shortLease)
		all, err := a.Election().History(t.Context(), 1)
		if err != nil || len(all) != 1 || all[0].Streak < 10 || all[0].StreakSince.Sub(began) > time.Second || all[0].StreakFirst != "failed: no such table" {
			t.Errorf("%+v, %v", all, err)
		}
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

var errLeadershipLost = errors.New("the leadership was lost")

// untilInvalid is work that loops on Valid, and takes its end for an error.
func untilInvalid(_ context.Context, term *elector.Term) error {
	for term.Valid() {
		time.Sleep(term.Left())
	}
	return errLeadershipLost
}

// Work that reads the clock knows of the deadline at the same moment as the timer that ends the term. An outage of
// Redis must not end Run for that.
func TestWorkThatReadsTheClockSurvivesAnOutage(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		var all []*candidate
		var terms []*elector.Term
		q := c.Quorum("a")
		for i := range 60 {
			a := makeCandidate(t, q, "a", func(cfg *elector.Config) { cfg.Election = fmt.Sprint("election-", i) })
			all = append(all, a.Begin(untilInvalid))
			terms = append(terms, a.Elected(3*shortLease))
			time.Sleep(shortLease / 97)
		}
		c.Nodes[0].Set(frozen)
		time.Sleep(shortLease)
		c.Heal()
		for i, a := range all {
			wantReason(t, terms[i], 0, elector.ReasonExpired)
			a.Elected(2 * shortLease)
		}
	})
}

// The same when no timer can have fired, since the machine slept; and for the work of Campaign, which is closed then.
func TestWorkThatReadsTheClockAfterASuspend(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		w := &lease.Warp{}
		sleep := func() {
			w.Wall.Add(int64(time.Hour))
			w.Boot.Add(int64(time.Hour))
		}
		a := lying(t, c, w, "a", func(_ context.Context, term *elector.Term) error {
			for term.Valid() {
				time.Sleep(time.Millisecond)
			}
			return errLeadershipLost
		})
		term := a.Elected(3 * shortLease)
		sleep()
		wantReason(t, term, 2*time.Millisecond, elector.ReasonExpired)
		a.Elected(2 * shortLease)
		if lines := a.Log.Lines("work failed while stopping"); len(lines) != 1 {
			t.Errorf("logged %q", lines)
		}
		a.Shutdown()

		term, err := makeCandidate(t, c.Quorum("b"), "b").Campaign(lease.WithClock(t.Context(), lease.NewClock(w)))
		if err != nil {
			t.Fatal(err)
		}
		sleep()
		_ = term.Close(t.Context())
		wantReason(t, term, 0, elector.ReasonExpired)
	})
}
