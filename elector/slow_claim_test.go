package elector_test

import (
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/testredis"
	"github.com/mandate-dev/mandate/elector/proof/testcluster"
)

// A claim that first had to wait for a connection has used up a part of its lease: the first
// renewal is due by when the claim was sent, or the term would expire before it.
func TestFirstRenewalIsDueByTheClaim(t *testing.T) {
	testcluster.Bubble(t, 1, func(t *testing.T, c *testcluster.Cluster) {
		c.Start("a").Elected(testcluster.Lease)
		b := c.Start("b")
		time.Sleep(testcluster.Lease / 2)
		c.Each(testredis.Cut, "a")
		c.Each(testredis.Down, "b")
		c.Nodes[0].Reset("b")
		time.Sleep(2 * testcluster.Lease)
		c.Each(testredis.Fault{Delay: 970 * time.Millisecond, Far: true}, "b")
		term := b.Elected(3 * testcluster.Lease)
		left := term.Left()
		if left > testcluster.Lease*3/16 { // it is renewed every quarter of a lease, and up to a quarter of that shorter to share a moment
			t.Fatalf("the claim was answered too soon for this test: %v are left", left)
		}
		c.Each(testredis.Fault{}, "b")
		select {
		case <-term.Done():
			t.Errorf("the term ended with %v left at its begin: %v", left, term.Err())
		case <-time.After(3 * testcluster.Lease):
		}
	})
}
