package elector_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/lease"
	"github.com/mandate-dev/mandate/health"
)

const renewEvery = shortLease / 4

// Each renewal is counted once, under what came of it; Check fails while the newest one
// is unconfirmed, and no longer.
func TestRenewalsAreCountedByTheirOutcome(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a := c.Start("a")
		term := a.Elected(3 * shortLease)
		time.Sleep(4*renewEvery + time.Second)
		wantRenewals(t, a, elector.RenewalStats{Confirmed: 4})
		if err := a.Check(); err != nil {
			t.Errorf("Check: %v", err)
		}

		for _, nd := range c.Nodes[1:] {
			nd.Set(down)
		}
		time.Sleep(2 * time.Second)
		got := a.Stats().Renewals
		if got.Confirmed != 4 || got.Unconfirmed == 0 || got.Refused != 0 {
			t.Errorf("without a majority: %+v", got)
		}
		if err := a.Check(); err == nil {
			t.Error("no renewal succeeds, and Check is nil")
		}

		c.Heal()
		time.Sleep(renewEvery)
		if err := a.Check(); err != nil {
			t.Errorf("after the next renewal Check still says: %v", err)
		}
		want := a.Stats().Renewals
		for _, nd := range c.Nodes[1:] {
			nd.Server().Del(lockKey)
		}
		wantReason(t, term, renewEvery+time.Second, elector.ReasonLost)
		if want.Refused++; want.Confirmed <= 4 {
			t.Errorf("after the outage: %+v", want)
		}
		wantRenewals(t, a, want)
	})
}

// A majority that definitely refuses ends the term at once, whatever it refuses with: to
// wait for the deadline would let the work run on beside the next leader's.
func TestRefusedRenewalsEndTheTermAtOnce(t *testing.T) {
	for name, spoil := range map[string]func(m *miniredis.Miniredis, token uint64){
		"lost": func(m *miniredis.Miniredis, _ uint64) { m.Del(lockKey) },
		"lost, and granted to others since": func(m *miniredis.Miniredis, token uint64) {
			m.Del(lockKey)
			_ = m.Set(fenceKey, strconv.FormatUint(token+5, 10))
		},
		"held by another": func(m *miniredis.Miniredis, token uint64) {
			_ = m.Set(lockKey, fmt.Sprintf("b/other/1 n=3 lease=%d token=%d", shortLease.Milliseconds(), token+5))
			m.SetTTL(lockKey, shortLease)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, c *cluster) {
				a := c.Start("a")
				term := a.Elected(3 * shortLease)
				time.Sleep(renewEvery + time.Second)
				for _, nd := range c.Nodes[1:] {
					spoil(nd.Server(), term.Token())
				}
				wantReason(t, term, renewEvery, elector.ReasonLost)
				if got := a.Stats().Renewals; got.Refused != 1 || got.Unconfirmed != 0 {
					t.Errorf("%+v", got)
				}
			})
		})
	}
}

func wantRenewals(t *testing.T, a *candidate, want elector.RenewalStats) {
	t.Helper()
	if got := a.Stats().Renewals; got != want {
		t.Errorf("renewals %+v, want %+v", got, want)
	}
}

// The time between two renewals counts from request to request: on a slow line the
// leader would else renew less often than it was told to.
func TestRenewalsKeepTheirPaceOnASlowLine(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		c.Seed()
		c.Each(fault{Delay: 500 * time.Millisecond})
		c.Start("a").Elected(3 * shortLease)
		time.Sleep(2 * renewEvery)
		c.Nodes[0].Took()
		time.Sleep(8 * renewEvery)
		var last time.Time
		n := 0
		for _, cl := range c.Nodes[0].Took() {
			if cl.Script != "renew" {
				continue
			}
			if d := cl.At.Sub(last); !last.IsZero() && (d < renewEvery || d > renewEvery+10*time.Millisecond) {
				t.Errorf("%v between two renewals, want %v", d, renewEvery)
			}
			last, n = cl.At, n+1
		}
		if n < 7 {
			t.Errorf("%d renewals", n)
		}
	})
}

// While the work of an unhealthy candidate drains, no renewal is even tried: else Check
// and the counters would tell of Redis' trouble where there is none.
func TestDrainingWhileUnhealthyIsNoErrorOfRedis(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		unhealthy, stop := &ward{}, make(chan struct{})
		a := makeCandidate(t, c.Quorum("a"), "a", probed(unhealthy), func(cfg *elector.Config) { cfg.DrainTimeout = 4 * shortLease })
		a.Begin(func(context.Context, *elector.Term) error { <-stop; return nil })
		defer close(stop)
		term := a.Elected(3 * shortLease)
		go a.Resign(t.Context())
		wantReason(t, term, time.Second, elector.ReasonResigned)
		unhealthy.set(errors.New("disk full"))
		time.Sleep(2 * shortLease) // beyond every threshold
		if got := a.Stats().Renewals; got.Unconfirmed > 0 || got.Refused > 0 {
			t.Errorf("renewals: %+v", got)
		}
		if err := a.Check(); errors.Is(err, elector.ErrUnreachable) {
			t.Errorf("Check: %v", err)
		}
	})
}

// Who was stopped beyond the lease finds its probe silent, and the lease over: the
// latter is what ended the term. As unhealthy it would rest before it runs again.
func TestStoppedBeyondTheLeaseIsNotUnhealthy(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		w, unhealthy := &lease.Warp{}, &ward{}
		a := lying(t, c, w, "a", nil, probed(unhealthy), func(cfg *elector.Config) {
			cfg.ProbeSettings = health.Settings{Interval: shortLease / 1000, Timeout: shortLease / 1000, Failures: 1}
		})
		term := a.Elected(3 * shortLease)
		time.Sleep(shortLease/16 + time.Millisecond) // the deadline's own timer has just looked
		w.Wall.Add(int64(time.Hour))
		w.Boot.Add(int64(time.Hour))
		unhealthy.set(errors.New("no answer while we were stopped"))
		wantReason(t, term, shortLease/100, elector.ReasonExpired)
	})
}

// Work that fails while it stops is logged; that it was cancelled is no failure.
func TestWorkThatFailsWhileItStopsIsLogged(t *testing.T) {
	for name, c := range map[string]struct {
		err    func(context.Context) error
		logged int
	}{
		"a failure":           {func(context.Context) error { return errors.New("disk full") }, 1},
		"nothing":             {func(context.Context) error { return nil }, 0},
		"the context's error": {context.Context.Err, 0},
		"the context's cause": {context.Cause, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, cl *cluster) {
				a := makeCandidate(t, cl.Quorum("a"), "a").Begin(func(ctx context.Context, _ *elector.Term) error {
					<-ctx.Done()
					return c.err(ctx)
				})
				term := a.Elected(3 * shortLease)
				if err := a.Resign(t.Context()); err != nil {
					t.Fatal(err)
				}
				wantReason(t, term, 0, elector.ReasonResigned)
				if logged := a.Log.Lines("work failed while stopping"); len(logged) != c.logged {
					t.Errorf("logged: %q", logged)
				}
			})
		})
	}
}

// The work may give up its own term: it asks, goes on to stop, and the next term comes
// after the cool-down.
func TestWorkResignsItsOwnTerm(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		a := makeCandidate(t, c.Quorum("a"), "a").Begin(func(ctx context.Context, term *elector.Term) error {
			term.Resign()
			<-ctx.Done()
			return nil
		})
		term := a.Elected(3 * shortLease)
		wantReason(t, term, time.Second, elector.ReasonResigned)
		ended := time.Now()
		if a.Elected(3 * shortLease); time.Since(ended) < shortLease {
			t.Errorf("it runs again after %v", time.Since(ended))
		}
	})
}
