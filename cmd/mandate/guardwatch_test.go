package main

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/supervise"
)

// fakeGuards are the guards of a command: each lives for a while, and starting one can
// fail.
type fakeGuards struct {
	lives  time.Duration // 0: for the whole test
	fails  error
	gone   chan struct{}
	starts int
}

func (g *fakeGuards) GuardGone() <-chan struct{} { return g.gone }
func (g *fakeGuards) GuardPID() int              { return 7 }

func (g *fakeGuards) ReplaceGuard() error {
	if g.starts++; g.fails != nil {
		return g.fails
	}
	g.gone = make(chan struct{})
	if gone := g.gone; g.lives > 0 {
		time.AfterFunc(g.lives, func() { close(gone) })
	}
	return nil
}

// watched is job.attend for the guard alone, from the death of the first one on: it
// returns the error that ends the command, or nil after an hour.
func watched(g *fakeGuards, log *slog.Logger, lease time.Duration, step func(time.Duration)) (after time.Duration, err error) {
	j := &job{lease: lease, grace: lease / 5, kill: killTime(lease)}
	g.gone = make(chan struct{})
	close(g.gone)
	w := j.watchGuard(g, log)
	began, tick := time.Now(), time.NewTicker(j.extendEvery())
	defer tick.Stop()
	for time.Since(began) < time.Hour {
		step(time.Since(began))
		select {
		case <-w.gone:
			w.lost()
		case <-w.again:
			if err := w.replace(); err != nil {
				return time.Since(began), err
			}
		case <-tick.C:
			w.extended()
		}
	}
	return time.Since(began), nil
}

// A machine that can start no guard (no memory, no free process or file descriptor) is
// not fit to lead: the command is stopped after half a lease, while mandate can do it
// itself. Not sooner: it may be over in a moment.
func TestNoGuardForHalfALeaseStopsTheCommand(t *testing.T) {
	for _, lease := range []time.Duration{200 * time.Millisecond, 10 * time.Second, time.Hour / 2} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			g := &fakeGuards{fails: syscall.EAGAIN}
			after, err := watched(g, slog.New(slog.NewTextHandler(&log, nil)), lease, func(time.Duration) {})
			if !errors.Is(err, supervise.ErrStart) || !errors.Is(err, syscall.EAGAIN) || !strings.Contains(err.Error(), supervise.GuardName) {
				t.Errorf("lease %v: stopped by %v", lease, err)
			}
			// A lease's quarter is left then for the grace and SIGKILL.
			if after <= lease/2 || after > lease/2+lease/8 {
				t.Errorf("lease %v: stopped after %v", lease, after)
			}
			if n := strings.Count(log.String(), "cannot be replaced"); n != 1 {
				t.Errorf("lease %v: logged %d times:\n%s", lease, n, log.String())
			}
			if g.starts < 4 || g.starts > 100 {
				t.Errorf("lease %v: tried %d times", lease, g.starts)
			}
		})
	}
}

// Guards that are killed as fast as they start are none.
func TestGuardsKilledAgainAndAgainStopTheCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lease := 10 * time.Second
		after, err := watched(&fakeGuards{lives: time.Nanosecond}, slog.New(slog.DiscardHandler), lease, func(time.Duration) {})
		if !errors.Is(err, supervise.ErrStart) || !errors.Is(err, errKilledAgain) || after <= lease/2 || after > lease*5/8 {
			t.Errorf("stopped after %v by %v", after, err)
		}
	})
}

// The pauses between guards that die one after the other are not those of one that dies
// an hour later: until it is replaced, a stop of mandate lets the command run on.
func TestLaterDeathIsReplacedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &job{lease: 10 * time.Second, grace: 2 * time.Second, kill: killTime(10 * time.Second)}
		g := &fakeGuards{}
		w := j.watchGuard(g, slog.New(slog.DiscardHandler))
		for range 8 { // at once, one after the other: the pauses grow
			w.lost()
			<-w.again
			if err := w.replace(); err != nil {
				t.Fatal(err)
			}
		}
		w.extended() // this one lives
		time.Sleep(time.Hour)
		w.extended()
		began := time.Now()
		w.lost()
		<-w.again
		if waited := time.Since(began); waited > 0 {
			t.Errorf("a guard that has lived for an hour is replaced after %v", waited)
		}
	})
}

// A machine that recovers in time keeps its leader, however often that happens.
func TestGuardIsBackInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lease := 10 * time.Second
		var log bytes.Buffer
		g := &fakeGuards{lives: 3 * time.Second}
		after, err := watched(g, slog.New(slog.NewTextHandler(&log, nil)), lease, func(now time.Duration) {
			g.fails = nil
			if now%(20*time.Second) < lease/4 {
				g.fails = syscall.ENOMEM
			}
		})
		if err != nil {
			t.Errorf("stopped after %v by %v", after, err)
		}
		if got := log.String(); !strings.Contains(got, "was killed and replaced") || strings.Count(got, "cannot be replaced") < 10 {
			t.Errorf("not logged anew each time: %d bytes", len(got))
		}
	})
}
