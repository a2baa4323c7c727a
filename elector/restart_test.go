package elector_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/testredis"
)

// crash ends a candidate without a word to Redis.
func crash(c *cluster, x *candidate) {
	c.Each(cut, x.ID())
	x.Stop()
}

// A renewal of the old term that arrives in the new one must not count for it.
func TestLateRenewalOfAnEarlierTerm(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a, b := c.Start("a"), c.Start("b")
		x, one := first(t, 3*shortLease, a, b)
		y := others([]*candidate{a, b}, x)[0]
		time.Sleep(shortLease)
		defer never2(t, a, b)()
		for _, nd := range c.Nodes {
			nd.Set(fault{Up: testredis.Hold, Down: testredis.Hold}, x.ID()) // renewals, and then the release, are kept on the way
		}
		wantReason(t, one, shortLease, elector.ReasonExpired)
		two := y.Elected(shortLease)
		time.Sleep(time.Second)
		value, _ := c.Nodes[0].Server().Get(lockKey)
		c.Heal() // now they arrive
		time.Sleep(3 * shortLease)
		if !two.Valid() {
			t.Fatalf("the late requests ended the new term: %v", two.Err())
		}
		for i, nd := range c.Nodes {
			if v, _ := nd.Server().Get(lockKey); v != value {
				t.Errorf("node %d: the lock is %q, was %q", i, v, value)
			}
		}
		if len(x.Terms) > 0 {
			t.Error("the old leader came back beside the new one")
		}
	})
}

// A context that ends in the middle of a claim leaves no orphan behind.
func TestCancelledInTheMiddleOfAClaim(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		c.Seed()
		for i, nd := range c.Nodes {
			nd.Set(fault{Delay: time.Duration(10+10*i) * time.Millisecond})
		}
		for after := time.Duration(0); after < 100*time.Millisecond; after += 3 * time.Millisecond {
			a := c.Start(fmt.Sprint("a", after.Milliseconds()))
			time.Sleep(after)
			a.Stop()
			if err := a.Ended(time.Second); err != nil {
				t.Errorf("after %v: %v", after, err)
			}
			eventually(t, 200*time.Millisecond, fmt.Sprintf("no orphan key after a claim cancelled at %v", after), func() bool { return c.Locks() == 0 })
			time.Sleep(200 * time.Millisecond)
			if n := c.Locks(); n != 0 {
				t.Errorf("after %v: a late claim left %d keys", after, n)
			}
		}
	})
}

// A claim that was long on its way to a single Redis (a master that hangs, and has
// been replaced when it wakes up) gets a token of the time of its grant.
func TestLateClaimHasNoOldToken(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		const way = 300 * time.Millisecond
		c.Nodes[0].Set(fault{Delay: way})
		term := c.Start("a").Elected(3 * shortLease)
		granted := term.Since().Add(-way)
		if token := time.UnixMilli(int64(term.Token())); token.Before(granted.Add(-10 * time.Millisecond)) {
			t.Errorf("the token is of %v before its grant", granted.Sub(token))
		}
	})
}
