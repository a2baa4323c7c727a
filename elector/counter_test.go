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
		c.Seed()
		a := c.Start("a")
		term := a.Elected(3 * shortLease)
		time.Sleep(renewEvery + time.Second)
		c.Nodes[0].Set(cut, "a")
		time.Sleep(2 * shortLease) // its lock lapses there
		b := c.Start("b")
		for _, n := range c.Nodes[1:] {
			n.Set(cut, "b")
		}
		time.Sleep(shortLease)
		c.Nodes[0].Took()
		b.Quiet(shortLease)
		claims := c.Nodes[0].TookOf("claim")
		if claims < int(shortLease/renewEvery) {
			t.Fatalf("b claims %d times in a lease, and not between two renewals: nothing is tested", claims)
		}

		c.Nodes[0].Set(fault{}, "a")
		b.Quiet(2*renewEvery + callTimeout)
		for range 10 { // and keeps it
			if !c.Nodes[0].Server().Exists(lockKey) {
				t.Fatal("the leader does not hold the node that it reaches")
			}
			b.Quiet(time.Second)
		}
		c.Nodes[1].Set(down) // the other one holds, then
		b.Quiet(2 * shortLease)
		if !term.Valid() {
			t.Errorf("the term ended: %v", term.Err())
		}
	})
}
