package elector_test

import (
	"fmt"
	"testing"
	"time"
)

func TestLostReleaseMessageCostsALeaseAtMost(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a := c.Start("a")
		one := a.Elected(3 * shortLease)
		b := c.Start("b")
		b.Quiet(shortLease)
		c.Each(fault{LoseMessages: true}, "b")
		a.Shutdown()
		two := b.Elected(shortLease + 20*time.Millisecond) // the lease's end, as b last saw it
		if two.Token() <= one.Token() {
			t.Errorf("token %d after %d", two.Token(), one.Token())
		}
	})
}

func TestReleaseMessageWakesFollowers(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		x := c.Start("c0")
		term := x.Elected(3 * shortLease)
		for i := range 20 {
			y := c.Start(fmt.Sprint("c", i+1))
			y.Quiet(shortLease)
			began := time.Now()
			x.Shutdown()
			next := y.Elected(time.Second)
			// The message, the claim, and on several nodes a second round for the token.
			if gap := next.Since().Sub(began); gap > 10*wire {
				t.Errorf("handover took %v", gap)
			}
			if next.Token() <= term.Token() {
				t.Errorf("token %d after %d", next.Token(), term.Token())
			}
			x, term = y, next
		}
	})
}

// claims are the claims that a node got since then, and how many at
// most within one millisecond.
func claims(n *node, since time.Time) (all, burst int) {
	var at []time.Time
	for _, cl := range n.Took() {
		if cl.Script == "claim" && !cl.At.Before(since) {
			at = append(at, cl.At)
		}
	}
	from := 0
	for i := range at {
		for at[i].Sub(at[from]) >= time.Millisecond {
			from++
		}
		burst = max(burst, i-from+1)
	}
	return len(at), burst
}

func TestManyFollowersAreNoHerd(t *testing.T) {
	for n, followers := range map[int]int{1: 60, 3: 30} {
		t.Run(fmt.Sprintf("n=%d", n), func(t *testing.T) {
			bubble(t, n, func(t *testing.T, c *cluster) {
				leader := c.Start("leader")
				term := leader.Elected(3 * shortLease)
				var all []*candidate
				for i := range followers {
					all = append(all, c.Start(fmt.Sprintf("f%d", i)))
				}
				time.Sleep(3 * shortLease)
				nd := c.Nodes[0]
				began := time.Now()
				leader.Shutdown()
				next, after := first(t, time.Second, all...)
				gap := after.Since().Sub(began)
				if most := time.Duration(n*n+1) * time.Millisecond; gap > most { // on several nodes one goes first, the others follow
					t.Errorf("a new leader after %v", gap)
				}
				if after.Token() <= term.Token() {
					t.Errorf("token %d after %d", after.Token(), term.Token())
				}
				leader, all, term = next, others(all, next), after
				time.Sleep(2*shortLease + time.Second) // between two renewals
				// The same followers after a crash.
				crash(c, leader)
				ended := lastRenewal(t, nd).Add(shortLease)
				_, after = first(t, 2*shortLease, all...)
				gap = after.Since().Sub(ended)
				time.Sleep(50 * time.Millisecond)
				claims, burst := claims(nd, ended)
				t.Logf("crash: next after %v, %d claims, at most %d in one ms", gap, claims, burst)
				if gap > 20*time.Millisecond {
					t.Errorf("a new leader %v after the lease's end", gap)
				}
				if burst > 20 || claims > 40 {
					t.Errorf("a stampede: %d claims, %d in one ms", claims, burst)
				}
				if after.Token() <= term.Token() {
					t.Errorf("token %d after %d", after.Token(), term.Token())
				}
			})
		})
	}
}

func lastRenewal(t *testing.T, n *node) (at time.Time) {
	t.Helper()
	for _, cl := range n.Took() {
		if cl.Script == "renew" {
			at = cl.At
		}
	}
	if at.IsZero() {
		t.Fatal("no renewal was seen")
	}
	return at
}

func TestIdleFollowersQueryLittle(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a := c.Start("a")
		term := a.Elected(3 * shortLease)
		const followers, leases = 3, 40
		for i := range followers {
			c.Start(fmt.Sprintf("f%d", i))
		}
		time.Sleep(2 * shortLease)
		before := make([]int, len(c.Nodes))
		for i, nd := range c.Nodes {
			nd.Took()
			before[i] = nd.Requests()
		}
		time.Sleep(leases * shortLease)
		for i, nd := range c.Nodes {
			all := nd.Requests() - before[i]
			byLeader := leases / 4 * 3 * 2 // three new connections every four leases: HELLO and GET
			for _, cl := range nd.Took() {
				if cl.From("a") {
					byLeader++
				}
			}
			each := float64(all-byLeader) / followers / leases
			t.Logf("node %d: %.2f requests per follower and lease, %.2f by the leader", i, each, float64(byLeader)/leases)
			if each > 4.0/3 {
				t.Errorf("node %d: %.2f requests per follower and lease", i, each)
			}
		}
		if !term.Valid() {
			t.Errorf("lost: %v", term.Err())
		}
	})
}

// Regression: candidates that start at once split the votes. Each partial grant is released
// at once, but the losers waited for the end of its lease.
func TestSplitVoteCostsNoLease(t *testing.T) {
	for _, hung := range []int{0, 1} {
		t.Run(fmt.Sprintf("%d of 3 hung", hung), func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, c *cluster) {
				c.Seed()
				for _, nd := range c.Nodes[:hung] {
					nd.Set(frozen)
				}
				slow := 0
				for round := range 10 {
					var all []*candidate
					for i := range 4 {
						all = append(all, c.Start(fmt.Sprintf("r%d-%d", round, i)))
					}
					began := time.Now()
					_, term := first(t, 3*shortLease, all...)
					if term.Since().Sub(began) > time.Second {
						slow++
					}
					for _, x := range all {
						x.Stop()
					}
					for _, x := range all {
						x.Ended(shortLease)
					}
					time.Sleep(2 * shortLease)
				}
				if slow > 0 {
					t.Errorf("%d of 10 elections took a lease", slow)
				}
			})
		})
	}
}
