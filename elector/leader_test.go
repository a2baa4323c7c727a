package elector_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/lease"
)

func TestWorkIgnoresItsContext(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		w, free := &fakeProbe{}, make(chan struct{})
		var overruns atomic.Int32
		var a *candidate
		a = makeCandidate(t, c.Quorum("a"), "a", probed(w), func(cfg *elector.Config) {
			cfg.Cooldown = time.Second
			cfg.OnOverrun = func(term *elector.Term) {
				overruns.Add(1)
				if len(a.Log.Lines("work is still running after its lease expired")) != 1 { // it may end the process
					t.Error("called before the log says why")
				}
				if term.Valid() {
					t.Error("an overrun of a valid term")
				}
			}
		})
		a.Begin(func(context.Context, *elector.Term) error { <-free; return nil })
		term := a.Elected(3 * shortLease)
		b := c.Start("b")
		events := watch(t, a.Election())
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
		synctest.Wait()
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
		newer(t, a.Elected(shortLease), two)
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
		must(t, a.Ended(time.Second))
	})
}

// Work that exits at once is started less and less often.
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
		rest := shortLease / 10
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
	})
}

// Work that another process has stopped at the deadline, while a renewal was under way, ends the term as expired: it
// has not failed, and runs again at once.
func TestWorkThatWasStoppedAtTheDeadline(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		for reason, want := range map[elector.Reason]elector.Reason{
			elector.ReasonExpired: elector.ReasonExpired, elector.ReasonShutdown: elector.ReasonFailed, // of another election
		} {
			a := makeCandidate(t, c.Quorum("a"), "a")
			a.Begin(func(context.Context, *elector.Term) error {
				return &elector.RestartError{Err: &elector.Ended{Reason: reason, Err: errors.New("too slow")}}
			})
			wantReason(t, a.Elected(3*shortLease), time.Second, want)
			a.Elected(3 * shortLease)
			a.Stop()
			_ = a.Ended(time.Minute)
		}
	})
}

// Whoever ended the context of Run may say why: the cause reaches the work.
func TestShutdownKeepsTheCause(t *testing.T) {
	for _, drained := range []error{errors.New("the node is drained"), nil} {
		bubble(t, 1, func(t *testing.T, c *cluster) {
			ctx, cancel := context.WithCancelCause(t.Context())
			a := makeCandidate(t, c.Quorum("a"), "a").BeginIn(ctx, nil)
			term := a.Elected(3 * shortLease)
			cancel(drained)
			if ended := wantReason(t, term, 0, elector.ReasonShutdown); !errors.Is(ended.Err, drained) {
				t.Errorf("ended with %v", ended)
			}
			must(t, a.Ended(time.Second))
			if past, err := a.Election().History(t.Context(), 1); err != nil || len(past) != 1 || past[0].Detail != "" {
				t.Errorf("history: %+v, %v", past, err)
			}
		})
	}
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

// untilInvalid is work that looks at Valid each so often, and takes its end for an error.
func untilInvalid(every func(*elector.Term) time.Duration) elector.Work {
	return func(_ context.Context, term *elector.Term) error {
		for term.Valid() {
			time.Sleep(every(term))
		}
		return errors.New("the leadership was lost")
	}
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
			all = append(all, a.Begin(untilInvalid((*elector.Term).Left)))
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
		a := lying(t, c, w, "a", untilInvalid(func(*elector.Term) time.Duration { return time.Millisecond }))
		term := a.Elected(3 * shortLease)
		sleep()
		wantReason(t, term, 2*time.Millisecond, elector.ReasonExpired)
		a.Elected(2 * shortLease)
		if lines := a.Log.Lines("work failed while stopping"); len(lines) != 1 {
			t.Errorf("logged %q", lines)
		}
		a.Shutdown()

		term, err := makeCandidate(t, c.Quorum("b"), "b").Campaign(lease.WithClock(t.Context(), lease.NewClock(w)))
		must(t, err)
		sleep()
		_ = term.Close(t.Context())
		wantReason(t, term, 0, elector.ReasonExpired)
	})
}

// childEnv makes the test binary play another part; see TestMain.
const childEnv = "MANDATE_TEST_CHILD"

// child leads on the Redis nodes that childEnv names, and its work panics.
func child() {
	q, err := elector.Open(strings.Split(os.Getenv(childEnv), ",")...)
	if err != nil {
		panic(err)
	}
	e, err := elector.New(q, elector.Config{Election: "orders", ID: "child", Lease: shortLease})
	if err != nil {
		panic(err)
	}
	err = e.Run(context.Background(), func(context.Context, *elector.Term) error {
		fmt.Println("leading")
		var m map[string]int
		m["x"] = 1 //nolint:govet,staticcheck // a panic of the runtime, on purpose
		return nil
	})
	fmt.Println("Run returned", err)
}

func TestPanicReleasesAndEndsTheProcess(t *testing.T) {
	m := miniredis.RunT(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=redis://"+m.Addr())
	began := time.Now()
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Fatalf("the process went on: %s", out)
	}
	if code := cmd.ProcessState.ExitCode(); code != 2 {
		t.Errorf("exit code %d, a panic gives 2", code)
	}
	for _, want := range []string{"leading", "assignment to entry in nil map", "goroutine ", "work panicked"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
	if m.Exists(lockKey) {
		t.Error("the lock was kept")
	}
	if d := time.Since(began); d > shortLease/2 {
		t.Errorf("took %v", d)
	}
	entries, err := m.Stream("mandate:{orders}:history")
	// Of so short a term the election may be announced after the end, or not at all.
	panicked := slices.ContainsFunc(entries, func(e miniredis.StreamEntry) bool {
		ev, err := eventIn(e.Values[len(e.Values)-1])
		return err == nil && ev.Kind == elector.EventReleased && ev.Reason == elector.ReasonPanicked
	})
	if err != nil || !panicked {
		t.Fatalf("history: %v, %v: its reader takes the panic for a kill", entries, err)
	}
}

// recovered runs f, and returns what it panicked with.
func recovered(f func()) (value any) {
	defer func() { value = recover() }()
	f()
	return nil
}

// A program whose work panics in a campaigned term ends, and the next leader must not wait
// for the lease of a dead one; an operator wants to see why it ended. So a deferred Close
// releases, records, and lets the panic go on.
func TestCloseDuringAPanic(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a := makeCandidate(t, c.Quorum("a"), "a")
		term := campaigned(t, a)
		b := c.Start("b")
		b.Quiet(shortLease)
		value := recovered(func() {
			defer term.Close(context.Background())
			panic("boom")
		})
		if value != "boom" {
			t.Errorf("the caller sees the panic %v", value)
		}
		b.Elected(time.Second)
		wantReason(t, term, 0, elector.ReasonPanicked)
		records, err := b.Election().History(t.Context(), 2)
		if err != nil || len(records) != 2 || records[1].Reason != elector.ReasonPanicked || records[1].Detail != "panic: boom" {
			t.Errorf("the history: %+v, %v", records, err)
		}
	})
}

// The process must not outlive its panic by a lease because Redis hangs.
func TestCloseDelaysAPanicForABoundedTime(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a := makeCandidate(t, c.Quorum("a"), "a")
		term := campaigned(t, a)
		c.Nodes[0].Set(frozen)
		c.Nodes[1].Set(frozen)
		began := time.Now()
		recovered(func() {
			defer term.Close(context.Background())
			panic("boom")
		})
		if d := time.Since(began); d > shortLease/2 {
			t.Errorf("the panic went on after %v", d)
		}
		c.Heal()
	})
}
