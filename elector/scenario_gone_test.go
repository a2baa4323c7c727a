package elector_test

import (
	"testing"
	"time"
)

// A candidate that reaches only one node wins it with each of its claims, gives it back,
// and leaves a higher counter there. The leader, back from an outage of its own way to
// that node, finds it free and the counter beyond its token, again at each renewal. It
// must get the node back: one of the others may fail next.
func TestClaimsOfAMinorityDontKeepANodeFromTheLeader(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		c.seed()
		a := c.start("a")
		term := a.elected(3 * shortLease)
		time.Sleep(renewEvery + time.Second)
		c.nodes[0].set(cut, "a")
		time.Sleep(2 * shortLease) // its lock lapses there
		b := c.start("b")
		for _, n := range c.nodes[1:] {
			n.set(cut, "b")
		}
		time.Sleep(shortLease)
		c.nodes[0].took()
		b.quiet(shortLease)
		claims := 0
		for _, cl := range c.nodes[0].took() {
			if cl.script == "claim" {
				claims++
			}
		}
		if claims < int(shortLease/renewEvery) {
			t.Fatalf("b claims %d times in a lease, and not between two renewals: nothing is tested", claims)
		}

		c.nodes[0].set(fault{}, "a")
		b.quiet(2*renewEvery + callTimeout)
		for range 10 { // and keeps it
			if !c.nodes[0].server().Exists(lockKey) {
				t.Fatal("the leader does not hold the node that it reaches")
			}
			b.quiet(time.Second)
		}
		c.nodes[1].set(down) // the other one holds, then
		b.quiet(2 * shortLease)
		if !term.Valid() {
			t.Errorf("the term ended: %v", term.Err())
		}
	})
}
