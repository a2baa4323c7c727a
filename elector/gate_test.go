package elector_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// gated is a candidate whose work is done through a gate.
func gated(c *cluster, id string) (*candidate, *elector.Gate) {
	gate := &elector.Gate{}
	return makeCandidate(c.T, c.Quorum(id), id).Begin(gate.Work), gate
}

// gateOpens waits until the candidate leads, and its gate knows.
func gateOpens(c *candidate) {
	c.T.Helper()
	eventually(c.T, 3*shortLease, "leads", c.IsLeader)
	time.Sleep(tick)
}

func TestGateRefusesWhereItDoesNotLead(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		never := func(context.Context, *elector.Term) error { t.Error("it ran"); return nil }
		var unused elector.Gate
		if err := unused.Do(t.Context(), never); !errors.Is(err, elector.ErrNotLeader) {
			t.Error(err)
		}
		c.Start("a").Elected(3 * shortLease)
		b, gate := gated(c, "b")
		time.Sleep(shortLease)
		began := time.Now()
		if err := gate.Do(t.Context(), never); !errors.Is(err, elector.ErrNotLeader) || time.Since(began) > 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		b.Shutdown()
	})
}

// The four lines that everybody writes around IsLeader let two work at once: the gate's
// functions end before the next leader begins.
func TestLockIsReleasedAfterTheGatesFunctions(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a, gate := gated(c, "a")
		gateOpens(a)
		b := c.Start("b")
		time.Sleep(shortLease)
		const work = 300 * time.Millisecond
		var stopped time.Time
		result := make(chan error, 1)
		go func() {
			result <- gate.Do(t.Context(), func(ctx context.Context, term *elector.Term) error {
				if !term.Valid() || term.Token() != a.Term().Token() {
					t.Error("not under the term")
				}
				<-ctx.Done()
				var ended *elector.Ended
				if !errors.As(context.Cause(ctx), &ended) || ended.Reason != elector.ReasonResigned {
					t.Errorf("the cause is %v", context.Cause(ctx))
				}
				err := gate.Do(t.Context(), func(context.Context, *elector.Term) error { t.Error("it ran"); return nil })
				if !errors.Is(err, elector.ErrNotLeader) {
					t.Errorf("while it drains: %v", err)
				}
				time.Sleep(work)
				stopped = time.Now()
				return errors.New("half done")
			})
		}()
		time.Sleep(time.Millisecond)
		go func() { _ = a.Resign(t.Context()) }()
		term := b.Elected(2 * shortLease)
		if stopped.IsZero() || term.Since().Before(stopped) {
			t.Errorf("b leads since %v, the function of a's gate returned at %v", term.Since(), stopped)
		}
		if gap := term.Since().Sub(stopped); gap > 50*time.Millisecond {
			t.Errorf("%v between the two", gap)
		}
		if err := <-result; err == nil || err.Error() != "half done" {
			t.Errorf("Do returned %v", err)
		}
	})
}

func TestGatesFunctionEndsWithItsCaller(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		a, gate := gated(c, "a")
		gateOpens(a)
		type key struct{}
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "v"), time.Second)
		defer cancel()
		err := gate.Do(ctx, func(ctx context.Context, _ *elector.Term) error {
			if ctx.Value(key{}) != "v" {
				t.Error("the caller's values are missing")
			}
			<-ctx.Done()
			return context.Cause(ctx)
		})
		if !errors.Is(err, context.DeadlineExceeded) || !a.IsLeader() {
			t.Errorf("%v, leads: %v", err, a.IsLeader())
		}
		// Resign from inside asks, and does not wait for the function that calls it.
		err = gate.Do(t.Context(), func(ctx context.Context, term *elector.Term) error {
			if err := a.Resign(ctx); err != nil {
				t.Error(err)
			}
			<-ctx.Done()
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// A panic is its caller's, and holds no lock.
func TestPanicInAGatesFunctionHoldsNoLock(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		a, gate := gated(c, "a")
		gateOpens(a)
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic did not reach its caller")
				}
			}()
			_ = gate.Do(t.Context(), func(context.Context, *elector.Term) error { panic("out of luck") })
		}()
		began := time.Now()
		a.Shutdown()
		if took := time.Since(began); took > 50*time.Millisecond {
			t.Errorf("the shutdown took %v", took)
		}
	})
}

// A gate that two electors share would mix their terms.
func TestGateOfTwoElectorsIsRefused(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		a, gate := gated(c, "a")
		gateOpens(a)
		other := makeCandidate(t, c.Quorum("b"), "b", func(cfg *elector.Config) { cfg.Election = "invoices" }).Begin(gate.Work)
		if err := other.Ended(3 * shortLease); err == nil {
			t.Error("a gate served two electors")
		}
		if !a.IsLeader() {
			t.Error("the first one fell")
		}
		// Nor while a function of its last term still runs.
		go func() {
			_ = gate.Do(t.Context(), func(ctx context.Context, _ *elector.Term) error {
				<-ctx.Done()
				time.Sleep(time.Second)
				return nil
			})
		}()
		time.Sleep(tick)
		go func() { _ = a.Resign(t.Context()) }()
		time.Sleep(tick)
		other = makeCandidate(t, c.Quorum("d"), "d", func(cfg *elector.Config) { cfg.Election = "invoices" }).Begin(gate.Work)
		if err := other.Ended(time.Second / 2); err == nil {
			t.Error("a gate that drains served another elector")
		}
		a.Shutdown()
		// It serves again, after its term.
		again := makeCandidate(t, c.Quorum("c"), "c").Begin(gate.Work)
		gateOpens(again)
		must(t, gate.Do(t.Context(), func(context.Context, *elector.Term) error { return nil }))
	})
}
