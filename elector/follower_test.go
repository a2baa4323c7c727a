package elector_test

import (
	"testing"
)

// The lease of a term counts from the moment before its claim was sent, also of a claim that travelled with others.
func TestLeaseCountsFromTheFollowersClaim(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		const slow = shortLease / 40
		a := c.Start("a")
		full := a.Elected(3 * shortLease).Left()
		b := c.Start("b")
		b.Quiet(2 * shortLease)
		c.Each(cut, "a")
		c.Each(fault{Delay: slow}, "b")
		if left := b.Elected(2 * shortLease).Left(); left > full-slow {
			t.Errorf("%v are left at the begin of a term whose claim took %v, and %v of one whose claim took no time", left, slow, full)
		}
	})
}
