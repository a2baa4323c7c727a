package elector_test

import (
	"errors"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/mandate-dev/mandate/elector"
)

// deadlineAfter is how long a term of the default timing may be believed, counted
// from the moment before its newest renewal was sent.
const deadlineAfter = shortLease - shortLease/100 - 2*time.Millisecond - shortLease/4

func TestOneLostRenewReplyCostsNothing(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a := c.Start("a")
		term := a.Elected(3 * shortLease)
		for _, nd := range c.Nodes {
			lost := 0
			nd.On(func(cl call, p *server.Peer) bool {
				if cl.Script != "renew" || lost == 3 {
					return false
				}
				lost++
				nd.Run(cl) // applied ...
				p.Close()  // ... and never answered
				return true
			})
		}
		time.Sleep(10 * shortLease)
		if !term.Valid() {
			t.Fatalf("lost: %v", term.Err())
		}
	})
}

func TestLostRenewRepliesAreNeverBelieved(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		a := c.Start("a")
		term := a.Elected(3 * shortLease)
		time.Sleep(2*shortLease + time.Second)
		calls := c.Nodes[0].Took()
		var sent time.Time // of the newest renewal that was answered
		for _, cl := range calls {
			if cl.Script == "renew" {
				sent = cl.At
			}
		}
		nd := c.Nodes[0]
		nd.On(func(cl call, p *server.Peer) bool {
			if cl.Script != "renew" {
				return false
			}
			nd.Run(cl)
			p.Close()
			return true
		})
		wantReason(t, term, shortLease, elector.ReasonExpired)
		if d := time.Since(sent); d != deadlineAfter-wire {
			t.Errorf("believed for %v after the last renewal that was answered, want %v", d+wire, deadlineAfter)
		}
		if len(a.Log.Lines("cannot campaign")) != 1 {
			t.Errorf("logged %d times", len(a.Log.Lines("cannot campaign")))
		}
	})
}

func TestClockStepOnOneNodeOfThree(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a := c.Start("a")
		term := a.Elected(3 * shortLease)
		b := c.Start("b")
		b.Quiet(shortLease)
		for _, nd := range c.Nodes {
			nd.Server().FastForward(time.Hour) // its clock steps ahead: the lock expires
			b.Quiet(shortLease)
			if !term.Valid() {
				t.Fatalf("a step on one node ended the term: %v", term.Err())
			}
			if c.Locks() != 3 {
				t.Error("the lock was not planted again")
			}
		}
	})
}

func TestShortAndFractionalLeases(t *testing.T) {
	for _, l := range []time.Duration{50 * time.Millisecond, 333 * time.Millisecond, 1500 * time.Millisecond} {
		t.Run(l.String(), func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, c *cluster) {
				c.Each(fault{Delay: 500 * time.Microsecond})
				lease := func(cfg *elector.Config) { cfg.Lease = l }
				a := c.Start("a", lease)
				term := a.Elected(5 * l)
				b := c.Start("b", lease)
				b.Quiet(50 * l)
				if !term.Valid() {
					t.Fatalf("lost: %v", term.Err())
				}
				a.Shutdown()
				b.Elected(l / 2)
			})
		})
	}
}

func TestLeaseShorterThanTheRoundTrip(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		c.Each(fault{Delay: 40 * time.Millisecond})
		a := c.Start("a", func(cfg *elector.Config) { cfg.Lease = 50 * time.Millisecond })
		a.Quiet(20 * time.Second)
		if err := a.Check(); err == nil || !errors.Is(err, elector.ErrUnreachable) {
			t.Errorf("Check: %v", err)
		}
		if n := len(a.Log.Lines("WARN")); n > 3+2 { // one reminder each: of the node, and that it cannot campaign
			t.Errorf("%d warnings in 20 s", n)
		}
	})
}
