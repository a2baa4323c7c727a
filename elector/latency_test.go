package elector_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/lease"
	"github.com/mandate-dev/mandate/elector/internal/testredis"
)

// timingOf is the schedule of a lease by default.
func timingOf(l time.Duration) lease.Timing {
	return lease.Timing{Lease: l, StopMargin: l / 4}
}

// far puts all nodes at the end of a round trip, also for who connects.
func far(c *cluster, trip time.Duration, handshakes int) {
	c.Each(fault{Delay: trip / 2, Far: true, Handshakes: handshakes})
}

// A candidate is elected, renews for many leases, keeps its term through the loss of all
// connections at any moment, and hands over: up to the round trip that doctor names if they are reset,
// and up to L/11 if they are swallowed without a reset; up to L/16 if TLS makes connections dearer.
func TestDistanceThatTermsSurvive(t *testing.T) {
	for name, lose := range map[string]struct {
		trip       func(t lease.Timing) time.Duration
		all        func(*testredis.Node)
		handshakes int
	}{
		"reset": {func(t lease.Timing) time.Duration {
			return min((t.Lease*49/100-2*time.Millisecond)/4, 500*time.Millisecond)
		}, func(n *testredis.Node) { n.Reset("") }, 0},
		"swallowed":          {func(t lease.Timing) time.Duration { return min(t.Lease/11, 500*time.Millisecond) }, (*testredis.Node).Swallow, 0},
		"swallowed with TLS": {func(t lease.Timing) time.Duration { return min(t.Lease/16, 500*time.Millisecond) }, (*testredis.Node).Swallow, 1},
	} {
		for _, l := range []time.Duration{time.Second, 10 * time.Second} {
			t.Run(fmt.Sprint(name, "/", l), func(t *testing.T) {
				survivesTheLossOfConnections(t, l, lose.trip(timingOf(l))-2*time.Millisecond, lose.handshakes, lose.all)
			})
		}
	}
}

func survivesTheLossOfConnections(t *testing.T, l, trip time.Duration, handshakes int, lose func(*testredis.Node)) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		timing := timingOf(l)
		c.Seed()
		far(c, trip, handshakes)
		with := func(cfg *elector.Config) { cfg.Lease = l }
		began := time.Now()
		a := c.Start("a", with)
		term := a.Elected(6 * time.Second) // connections first, whatever the lease
		t.Logf("elected after %v with a round trip of %v", time.Since(began), trip)
		holds := func(what string) {
			t.Helper()
			if !term.Valid() {
				t.Fatalf("%s cost the term: %v", what, term.Err())
			}
		}
		for range 100 {
			time.Sleep(l / 5)
			holds("time")
		}
		const phases = 8
		for i := range phases {
			time.Sleep(3*l + timing.RenewEvery()*time.Duration(i)/phases)
			for _, nd := range c.Nodes {
				lose(nd)
			}
			for range 100 {
				time.Sleep(2 * l / 100)
				holds(fmt.Sprintf("the loss of all connections, %d", i))
			}
		}
		b := c.Start("b", with)
		time.Sleep(2*l + 6*time.Second)
		began = time.Now()
		a.Stop()
		b.Elected(l)
		t.Logf("handed over in %v", time.Since(began))
	})
}

// Farther away a term is lost with its connections, and beyond the time of a call nobody
// leads.
func TestDistanceAtWhichNoCandidateLeads(t *testing.T) {
	for _, l := range []time.Duration{time.Second, 10 * time.Second} {
		timing := timingOf(l)
		for _, tc := range []struct {
			trip  time.Duration
			leads bool
		}{
			{timing.MaxRoundTrip() - 2*time.Millisecond, true},
			{timing.MaxRoundTrip() + 2*time.Millisecond, true},
			{l/5 - 4*time.Millisecond, true},
			{l/5 + 4*time.Millisecond, false},
		} {
			if tc.trip > 2*time.Second { // nobody dials that far; and go-redis' PubSub waits with its mutex held
				continue
			}
			t.Run(fmt.Sprintf("%v/%v", l, tc.trip), func(t *testing.T) {
				bubble(t, 3, func(t *testing.T, c *cluster) {
					c.Seed()
					far(c, tc.trip, 0)
					a := c.Start("a", func(cfg *elector.Config) { cfg.Lease = l })
					if tc.leads {
						lasts(t, a, l, tc.trip > timing.MaxRoundTrip()+2*time.Millisecond)
					} else {
						time.Sleep(20 * l)
						if len(a.Terms) > 0 {
							t.Error("a candidate led")
						}
					}
				})
			})
		}
	}
}

// lasts wants a term that lasts 20 leases: the first one or, very far away, the fourth at the latest. There each
// renewal is sent twice, and earlier terms may end because it takes too long to make the second connection.
func lasts(t *testing.T, c *candidate, l time.Duration, veryFar bool) {
	t.Helper()
	for terms := 1; ; terms++ {
		term := c.Elected(20 * time.Second)
		time.Sleep(20 * l)
		switch {
		case term.Valid():
			return
		case !veryFar || terms == 4:
			t.Fatalf("term %d was lost: %v", terms, term.Err())
		}
	}
}
