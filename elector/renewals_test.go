package elector_test

import (
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
		wantRenewals(t, a, renewals{Confirmed: 4})
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

type renewals = struct{ Confirmed, Unconfirmed, Refused uint64 }

func wantRenewals(t *testing.T, a *candidate, want renewals) {
	t.Helper()
	if got := a.Stats().Renewals; got != want {
		t.Errorf("renewals %+v, want %+v", got, want)
	}
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
