package elector_test

import (
	"fmt"
	"testing"
	"time"
)

func TestLostReleaseMessageCostsALeaseAtMost(t *testing.T) {
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprintf("n=%d", n), func(t *testing.T) {
			bubble(t, n, func(t *testing.T, c *cluster) {
				a := c.start("a")
				one := a.elected(3 * shortLease)
				b := c.start("b")
				b.quiet(shortLease)
				c.each(fault{deaf: true}, "b")
				a.shutdown()
				two := b.elected(shortLease + 20*time.Millisecond) // the lease's end, as b last saw it
				if two.Token() <= one.Token() {
					t.Errorf("token %d after %d", two.Token(), one.Token())
				}
			})
		})
	}
}

func TestReleaseMessageWakesFollowers(t *testing.T) {
	for _, n := range []int{1, 3, 5} {
		t.Run(fmt.Sprintf("n=%d", n), func(t *testing.T) {
			bubble(t, n, func(t *testing.T, c *cluster) {
				x := c.start("c0")
				term := x.elected(3 * shortLease)
				for i := range 20 {
					y := c.start(fmt.Sprint("c", i+1))
					y.quiet(shortLease)
					began := time.Now()
					x.shutdown()
					next := y.elected(time.Second)
					// The message, the claim, and on several nodes a second round for the token.
					if gap := next.Since().Sub(began); gap > 10*wire {
						t.Errorf("hand-over took %v", gap)
					}
					if next.Token() <= term.Token() {
						t.Errorf("token %d after %d", next.Token(), term.Token())
					}
					x, term = y, next
				}
			})
		})
	}
}

// claims are the claims that a node got since then, and how many at
// most within one millisecond.
func (n *node) claims(since time.Time) (all, burst int) {
	var at []time.Time
	for _, cl := range n.took() {
		if cl.script == "claim" && !cl.at.Before(since) {
			at = append(at, cl.at)
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
	for n, crowd := range map[int]int{1: 200, 3: 60} {
		t.Run(fmt.Sprintf("n=%d", n), func(t *testing.T) {
			bubble(t, n, func(t *testing.T, c *cluster) {
				leader := c.start("leader")
				term := leader.elected(3 * shortLease)
				var all []*candidate
				for i := range crowd {
					all = append(all, c.start(fmt.Sprintf("f%d", i)))
				}
				time.Sleep(3 * shortLease)
				nd := c.nodes[0]
				began := time.Now()
				leader.shutdown()
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
				// The same crowd after a crash.
				c.crash(leader)
				ended := lastRenewal(t, nd).Add(shortLease)
				_, after = first(t, 2*shortLease, all...)
				gap = after.Since().Sub(ended)
				time.Sleep(50 * time.Millisecond)
				claims, burst := nd.claims(ended)
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
	for _, cl := range n.took() {
		if cl.script == "renew" {
			at = cl.at
		}
	}
	if at.IsZero() {
		t.Fatal("no renewal was seen")
	}
	return at
}

func TestIdleFollowersAskLittle(t *testing.T) {
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprintf("n=%d", n), func(t *testing.T) {
			bubble(t, n, func(t *testing.T, c *cluster) {
				a := c.start("a")
				term := a.elected(3 * shortLease)
				const followers, leases = 3, 100
				for i := range followers {
					c.start(fmt.Sprintf("f%d", i))
				}
				time.Sleep(2 * shortLease)
				before := make([]int, n)
				for i, nd := range c.nodes {
					nd.took()
					before[i] = nd.requests()
				}
				time.Sleep(leases * shortLease)
				for i, nd := range c.nodes {
					all := nd.requests() - before[i]
					byLeader := 0
					for _, cl := range nd.took() {
						if cl.from("a") {
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
		})
	}
}

func TestRollingDeployTakesMillisecondsPerMove(t *testing.T) {
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprintf("n=%d", n), func(t *testing.T) {
			bubble(t, n, func(t *testing.T, c *cluster) {
				var all []*candidate
				for i := range 5 {
					all = append(all, c.start(fmt.Sprint("old", i)))
				}
				leader, term := first(t, 3*shortLease, all...)
				time.Sleep(2 * shortLease)
				for i := range 20 { // each in turn: a new one comes, the leader goes
					all = append(others(all, leader), c.start(fmt.Sprint("new", i)))
					time.Sleep(2 * shortLease)
					began := time.Now()
					leader.shutdown()
					next, after := first(t, 2*shortLease, all...)
					if gap := after.Since().Sub(began); gap > 20*time.Millisecond {
						t.Errorf("move %d: %v without a leader", i, gap)
					}
					if after.Token() <= term.Token() {
						t.Errorf("token %d after %d", after.Token(), term.Token())
					}
					leader, term = next, after
				}
				if err := leader.Check(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Regression: after a needless claim a follower ignored releases for a sixteenth of a
// lease, so that a second handover soon after the first took until the lease's end.
func TestTwoHandoversInQuickSuccession(t *testing.T) {
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprintf("n=%d", n), func(t *testing.T) {
			bubble(t, n, func(t *testing.T, c *cluster) {
				for round := range 10 {
					var all []*candidate
					for i := range 5 {
						all = append(all, c.start(fmt.Sprintf("r%d-%d", round, i)))
					}
					leader, _ := first(t, 3*shortLease, all...)
					time.Sleep(2 * shortLease)
					for len(all) > 1 {
						began := time.Now()
						leader.stop()
						all = others(all, leader)
						next, term := first(t, 2*shortLease, all...)
						if gap := term.Since().Sub(began); gap > 100*time.Millisecond {
							t.Errorf("round %d, %d left: %v without a leader", round, len(all), gap)
						}
						leader.ended(time.Second)
						leader = next
						time.Sleep(50 * time.Millisecond)
					}
					leader.shutdown()
				}
			})
		})
	}
}

// Regression: candidates that start at once split the votes. Each partial grant is released
// at once, but the losers waited for the end of its lease.
func TestSplitVoteCostsNoLease(t *testing.T) {
	for _, hung := range []int{0, 1} {
		t.Run(fmt.Sprintf("%d of 3 hung", hung), func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, c *cluster) {
				c.seed()
				for _, nd := range c.nodes[:hung] {
					nd.set(frozen)
				}
				slow := 0
				for round := range 20 {
					var all []*candidate
					for i := range 4 {
						all = append(all, c.start(fmt.Sprintf("r%d-%d", round, i)))
					}
					began := time.Now()
					_, term := first(t, 3*shortLease, all...)
					if term.Since().Sub(began) > time.Second {
						slow++
					}
					for _, x := range all {
						x.stop()
					}
					for _, x := range all {
						x.ended(shortLease)
					}
					time.Sleep(2 * shortLease)
				}
				if slow > 0 {
					t.Errorf("%d of 20 elections took a lease", slow)
				}
			})
		})
	}
}
