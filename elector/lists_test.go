package elector_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// Candidates whose lists of nodes differ, although they are of one length: a wrong URL
// in one replica's environment.

const otherNodes = "votes with other Redis nodes than this candidate"

// noneDiffers wants that nobody complains about another list of nodes.
func noneDiffers(t *testing.T, cs ...*candidate) {
	t.Helper()
	for _, x := range cs {
		if lines := x.Log.Lines("other Redis nodes"); len(lines) > 0 {
			t.Errorf("%s complains: %q", x.ID(), lines)
		}
	}
}

// A leader sits, and the other one meets its lock on a node that both have. It says so at
// its first claim after 3.5 leases; it claims once a lease, and rests after it.
func TestOtherNodesAreRefused(t *testing.T) {
	for _, other := range [][]int{{0, 3, 4}, {3, 4, 0}, {0, 1, 3}, {4, 2, 1}} {
		sub(t, fmt.Sprint(other), 5, func(t *testing.T, c *cluster) {
			c.Seed()
			a := c.StartOn("a", []int{0, 1, 2})
			term := a.Elected(3 * shortLease)
			b := c.StartOn("b", other)
			b.Quiet(5 * shortLease)
			if err := b.Check(); err == nil || !strings.Contains(err.Error(), "a holds the lock and "+otherNodes) {
				t.Errorf("Check: %v", err)
			}
			b.Quiet(5 * shortLease)
			if lines := b.Log.Lines("cannot campaign", "refusing to lead"); len(lines) != 1 {
				t.Errorf("logged %d times", len(lines))
			}
			if !term.Valid() || a.Check() != nil {
				t.Errorf("the leader suffered: %v, %v", term.Err(), a.Check())
			}
			noneDiffers(t, a)
			a.Shutdown() // nobody is there to disagree with
			b.Elected(shortLease)
			if err := b.Check(); err != nil {
				t.Errorf("alone: %v", err)
			}
		})
	}
}

// Both start at the same moment, each with nothing but its own list: on nodes that
// nobody has used yet, and on old ones. Neither may lead beside the other.
func TestOtherNodesFromTheStart(t *testing.T) {
	for _, fresh := range []bool{true, false} {
		for _, other := range [][]int{{0, 3, 4}, {3, 0, 1}} {
			t.Run(fmt.Sprintf("fresh=%v,%v", fresh, other), func(t *testing.T) {
				for i := range 6 {
					bubble(t, 5, func(t *testing.T, c *cluster) {
						if !fresh {
							c.Seed()
						}
						c.Nodes[1].Set(fault{Delay: time.Duration(i%3) * time.Millisecond / 4})
						c.Nodes[3].Set(fault{Delay: time.Duration(i/3) * time.Millisecond / 2})
						a := c.StartOn("a", []int{0, 1, 2})
						b := c.StartOn("b", other)
						defer never2(t, a, b)()
						one, _ := first(t, 4*shortLease, a, b)
						for _, x := range others([]*candidate{a, b}, one) {
							x.Quiet(3 * shortLease)
						}
					})
				}
			})
		}
	}
}

// The node that both have is away when the second one is elected: nobody can see it.
// When it is back one of them makes room, whichever comes first there.
func TestTwoLeadersOfOtherNodesMeet(t *testing.T) {
	for name, how := range map[string]func(c *cluster){
		"its data kept":              func(c *cluster) {},
		"empty":                      func(c *cluster) { c.Nodes[0].RestartEmpty() },
		"first back for the earlier": func(c *cluster) { c.Nodes[0].Set(down, "b") },
		"first back for the later":   func(c *cluster) { c.Nodes[0].Set(down, "a") },
		// Its claims win there, are given back, and leave a counter beyond both tokens.
		"beside a candidate that reaches no other": func(c *cluster) {
			c.Nodes[0].Set(down, "a", "b")
			for _, n := range c.Nodes[1:3] {
				n.Set(cut, "c")
			}
			c.StartOn("c", []int{0, 1, 2})
		},
	} {
		sub(t, name, 5, func(t *testing.T, c *cluster) {
			a, first, b, second := c.TwoLeaders()
			time.Sleep(2 * shortLease)
			if !first.Valid() || !second.Valid() {
				t.Fatalf("both led, each on a majority of its own: %v, %v", first.Err(), second.Err())
			}
			c.Nodes[0].Heal()
			how(c)
			time.Sleep(shortLease)
			c.Nodes[0].Heal()
			ended, stays, loser := first, second, a
			select {
			case <-first.Done():
			case <-second.Done():
				ended, stays, loser = second, first, b
			case <-time.After(2 * shortLease):
				t.Fatal("both lead on, two leases after they met on a node")
			}
			why := wantReason(t, ended, 0, elector.ReasonLost)
			if !strings.Contains(why.Error(), "another leader") || !strings.Contains(why.Error(), "127.0.0.1:7001") {
				t.Errorf("ended with %v", why)
			}
			loser.Quiet(4 * shortLease)
			if err := loser.Check(); err == nil || !strings.Contains(err.Error(), otherNodes) {
				t.Errorf("Check: %v", err)
			}
			continues(t, stays)
		})
	}
}

// An attempt that passes, by a candidate with other settings or the same, costs a leader nothing: it may hold a node that
// lost the leader's lock until it is given back, or lapses. One that is renewed there is another leader's.
func TestAttemptThatPassesEndsNoTerm(t *testing.T) {
	for _, value := range []string{
		"b/B/1 n=5 lease=10000 token=1", "b/B/1 n=3 lease=9000 token=1", "b/B/1 n=3 lease=10000 ids=X1,Y1,Z1 token=1", "b/B/1 n=3 lease=10000 token=1",
	} {
		sub(t, value, 3, func(t *testing.T, c *cluster) {
			_, term := leading(c, "a")
			time.Sleep(3 * shortLease)
			m := c.Nodes[1].Server()
			for range 3 {
				must(t, m.Set(lockKey, value))
				m.SetTTL(lockKey, shortLease)
				time.Sleep(3 * shortLease / 2)
				continues(t, term)
			}
			// The node goes away while the attempt holds it.
			_ = m.Set(lockKey, value)
			time.Sleep(shortLease / 2)
			c.Nodes[1].Set(cut, "a")
			time.Sleep(3 * shortLease)
			continues(t, term)
			m.Del(lockKey)
			c.Nodes[1].Heal()
			time.Sleep(shortLease)
			for range 3 { // now somebody renews it
				m.SetTTL(lockKey, shortLease)
				_ = m.Set(lockKey, value)
				m.SetTTL(lockKey, shortLease)
				time.Sleep(shortLease / 2)
			}
			wantReason(t, term, shortLease, elector.ReasonLost)
		})
	}
}

// Of two candidates that claimed at once one died, with a node. That one's answers become late, and the last of them
// shows what has lapsed meanwhile: nobody renewed it.
func TestLateAnswersShowNoLeader(t *testing.T) {
	for phase := range 8 {
		bubble(t, 3, func(t *testing.T, c *cluster) {
			c.Seed()
			time.Sleep(time.Duration(phase) * shortLease / 32)
			_ = c.Nodes[1].Server().Set(lockKey, "b/B/1 n=3 lease=10000 token=1")
			c.Nodes[1].Server().SetTTL(lockKey, shortLease)
			_, term := leading(c, "a")
			time.Sleep(shortLease / 2)
			c.Nodes[1].Set(fault{Late: shortLease * 18 / 100})
			time.Sleep(shortLease)
			continues(t, term)
		})
	}
}

// Two nodes are copies of one data set, and have two votes: also if one of them answered the claim late.
func TestCopiesHaveTwoVotes(t *testing.T) {
	for _, way := range []time.Duration{0, shortLease / 300} {
		bubble(t, 3, func(t *testing.T, c *cluster) {
			c.Seed()
			for _, n := range c.Nodes[1:] {
				_ = n.Server().Set("mandate:{orders}:id", "COPIED")
			}
			c.Nodes[2].Set(fault{Delay: way})
			_, term := leading(c, "a")
			time.Sleep(3 * shortLease)
			c.Nodes[0].Set(down)
			time.Sleep(3 * shortLease)
			continues(t, term)
		})
	}
}

// While a leads, the address of one node comes to lead it to the server of another, and then a is cut off from the third.
// b reaches all. The one server must not confirm a's renewals twice, whichever address it answers first.
func TestOneServerTwoVotesInARenewal(t *testing.T) {
	for _, twin := range [][2]int{{2, 1}, {1, 2}} {
		bubble(t, 3, func(t *testing.T, c *cluster) {
			a, term := leading(c, "a")
			b := c.Start("b")
			defer never2(t, a, b)()
			c.Nodes[twin[0]].Balance(func(client string) *node {
				if client == "a" {
					return c.Nodes[twin[1]]
				}
				return c.Nodes[twin[0]]
			})
			c.Nodes[twin[0]].Reset("a")
			time.Sleep(2 * shortLease)
			continues(t, term)
			c.Nodes[0].Set(cut, "a")
			wantReason(t, term, shortLease, elector.ReasonExpired)
			if lines := a.Log.Lines("cannot renew the lease", "listed twice"); len(lines) == 0 {
				t.Error("the log does not say why")
			}
			b.Elected(2 * shortLease)
			c.Heal()
			time.Sleep(3 * shortLease)
		})
	}
}

// With two nodes in common each of the leaders holds one of them, after each was cut
// off from the other's. Both may make room; then one leads.
func TestTwoLeadersHoldANodeOfEachOther(t *testing.T) {
	bubble(t, 5, func(t *testing.T, c *cluster) {
		c.Seed()
		c.Nodes[1].Set(cut, "a")
		c.Nodes[0].Set(cut, "b")
		a, b := c.StartOn("a", []int{0, 1, 2}), c.StartOn("b", []int{0, 1, 3})
		one, two := a.Elected(3*shortLease), b.Elected(3*shortLease)
		time.Sleep(3 * shortLease)
		if !one.Valid() || !two.Valid() {
			t.Fatalf("%v, %v", one.Err(), two.Err())
		}
		c.Heal()
		time.Sleep(2 * shortLease)
		defer never2(t, a, b)()
		if one.Valid() && two.Valid() {
			t.Fatal("both lead on")
		}
		time.Sleep(3 * shortLease)
		if !a.IsLeader() && !b.IsLeader() {
			t.Error("no candidate leads")
		}
	})
}

// Nodes that lose their data get a new identity. Neither a follower nor a leader that
// is cut off from such a node, and names its old one, may take that for another list.
func TestForgettingIsNoOtherList(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		all := []*candidate{c.Start("a"), c.Start("b"), c.Start("d")}
		lead, _ := first(t, 3*shortLease, all...)
		defer never2(t, all...)()
		for i := range 24 {
			time.Sleep(shortLease/2 + time.Duration(i%7)*shortLease/4)
			nd := c.Nodes[i%3]
			if i%3 == 0 {
				nd.Set(cut, lead.ID())
			}
			nd.RestartEmpty()
			time.Sleep(time.Duration(i%5) * shortLease)
			nd.Heal()
			if i%6 == 5 {
				if lead.IsLeader() {
					_ = lead.Resign(t.Context())
				}
				lead, _ = first(t, 2*shortLease, all...)
			}
		}
		noneDiffers(t, all...)
		for _, x := range all {
			if err := x.Check(); err != nil && !strings.Contains(err.Error(), "resting") {
				t.Errorf("%s: %v", x.ID(), err)
			}
		}
	})
}

// farLists are lists that share one node, which is farther away than the others: no claim waits for it for so long.
var farLists = map[string][2][]int{
	"three of five":           {{0, 1, 2}, {0, 3, 4}},
	"from one node to three":  {{0}, {0, 3, 4}},
	"from three nodes to one": {{0, 1, 2}, {0}},
	"from three to five":      {{0, 1, 2}, {0, 3, 4, 5, 6}},
}

// The far node answers both, only later than the others. It must not take until a lock that is met there counts as
// renewed, and not again after each term.
func TestTwoListsWithAFarNode(t *testing.T) {
	for name, lists := range farLists {
		for _, times := range []int{4, 6, 20, 200} {
			sub(t, fmt.Sprintf("%s,%d", name, times), 7, func(t *testing.T, c *cluster) {
				c.Each(fault{Delay: time.Millisecond / 2})
				c.Nodes[0].Set(fault{Delay: time.Duration(times) * time.Millisecond / 2, Far: true})
				c.Seed()
				a := c.StartOn("a", lists[0])
				a.Elected(3 * shortLease)
				b := c.StartOn("b", lists[1])
				wantOneLeader(t, shortLease/10, a, b)
			})
		}
	}
}

// wantOneLeader wants that one of two candidates leads for 22 leases, and both for a moment at most.
func wantOneLeader(t *testing.T, most time.Duration, a, b *candidate) {
	t.Helper()
	none, both := ledFor(22*shortLease, a, b)
	if both > most {
		t.Errorf("both lead for %v", both)
	}
	if none > shortLease {
		t.Errorf("none of them leads for %v", none)
	}
}

// The node answers one of them now and then, and not at all for longer than a lock that was met there lasts. So both may lead
// again and again, but each time only until two of b's requests, sent more than 9/8 of a lease apart, have shown it the lock of a.
// The node answers one of two renewals in a row, so that takes two leases, and a little for an answer that is late.
func TestTwoListsWithANodeThatComesAndGoes(t *testing.T) {
	bubble(t, 5, func(t *testing.T, c *cluster) {
		c.Seed()
		a := c.StartOn("a", []int{0, 1, 2})
		a.Elected(3 * shortLease)
		began := time.Now()
		go func() {
			for i := range 100 {
				c.Nodes[0].Set([]fault{{}, frozen, {Delay: 30 * time.Millisecond}, cut, {}}[i%5], "b")
				time.Sleep(shortLease / 4)
			}
			c.Heal()
		}()
		b := c.StartOn("b", []int{0, 3, 4})
		none, both := time.Duration(0), time.Duration(0)
		for time.Since(began) < 22*shortLease {
			vacant, overlap := ledFor(time.Millisecond, a, b)
			none += vacant
			if both += overlap; overlap == 0 {
				both = 0
			}
			if both > 9*shortLease/4 || none > shortLease {
				t.Fatalf("both lead for %v, none for %v", both, none)
			}
		}
		time.Sleep(5 * shortLease)
	})
}

// What was met on a node is remembered no longer than it can be there: nobody waits for the dead.
func TestRivalDiesWithItsNode(t *testing.T) {
	bubble(t, 5, func(t *testing.T, c *cluster) {
		c.Seed()
		c.StartOn("a", []int{0, 1, 2}).Elected(3 * shortLease)
		b := c.StartOn("b", []int{0, 3, 4})
		b.Quiet(4 * shortLease)
		c.Nodes[0].Set(down)
		c.Each(cut, "a")
		b.Elected(2 * shortLease)
		time.Sleep(3 * shortLease)
		if !b.IsLeader() {
			t.Error("it does not lead on")
		}
	})
}

// Candidates of two lists, whose ways to the nodes come and go by dice. Two of one list
// never lead. Two of different lists lead only while no node that both list answers both,
// or a third candidate's lock lapses there, and for two leases from then on; and when all
// ways are open one of all of them leads.
func TestTwoListsUnderFaults(t *testing.T) {
	bubble(t, 5, func(t *testing.T, c *cluster) {
		rng := rand.New(rand.NewPCG(104, 1))
		other := []int{0, 3, 4}
		c.Seed()
		d := &dice{c: c, rng: rng, since: map[way]time.Time{}, free: map[int]time.Time{}}
		a := []*candidate{c.StartOn("a1", []int{0, 1, 2}), c.StartOn("a2", []int{0, 1, 2})}
		b := []*candidate{c.StartOn("b1", other), c.StartOn("b2", other)}
		defer never2(t, a...)()
		defer never2(t, b...)()
		common := []int{0} // the nodes of both lists
		all := slices.Concat(a, b)
		for range 40 {
			d.roll(all)
			for end := time.Now().Add(time.Duration(rng.Int64N(int64(4 * shortLease)))); time.Now().Before(end); {
				time.Sleep(shortLease / 40)
				d.check(t, a, b, common)
			}
		}
		c.Heal()
		time.Sleep(6 * shortLease)
		if n := len(slices.DeleteFunc(all, func(x *candidate) bool { return !x.IsLeader() })); n != 1 {
			t.Errorf("%d lead when all is well", n)
		}
	})
}

// way is that from a candidate to a node.
type way struct {
	id   string
	node int
}

// dice is the faults of such a test, and what came of them.
type dice struct {
	c     *cluster
	rng   *rand.Rand
	since map[way]time.Time // since when a way is open; zero: it is cut
	free  map[int]time.Time // when a node's lock was last seen with one who does not lead
}

// roll opens and cuts ways, and now and then takes the data of a node.
func (d *dice) roll(all []*candidate) {
	now := time.Now()
	for _, x := range all {
		for i, n := range d.c.Nodes {
			w := way{x.ID(), i}
			since, known := d.since[w]
			switch cuts := d.rng.IntN(3) == 0; {
			case cuts:
				n.Set(cut, x.ID())
				d.since[w] = time.Time{}
			case !known || since.IsZero():
				n.Set(fault{}, x.ID())
				d.since[w] = now
			}
		}
	}
	if d.rng.IntN(6) == 0 {
		i := d.rng.IntN(len(d.c.Nodes))
		d.c.Nodes[i].RestartEmpty()
		for w, since := range d.since {
			if w.node == i && !since.IsZero() {
				d.since[w] = now
			}
		}
	}
}

// check looks at those who lead now.
func (d *dice) check(t *testing.T, a, b []*candidate, common []int) {
	t.Helper()
	for _, i := range common {
		if lock, _ := d.c.Nodes[i].Server().Get(lockKey); lock != "" && !slices.ContainsFunc(slices.Concat(a, b), func(x *candidate) bool {
			return x.IsLeader() && strings.HasPrefix(lock, x.ID()+"/")
		}) {
			d.free[i] = time.Now()
		}
	}
	for _, x := range a {
		for _, y := range b {
			one, two := x.Term(), y.Term()
			if one == nil || two == nil {
				continue
			}
			for _, i := range common {
				mine, yours := d.since[way{x.ID(), i}], d.since[way{y.ID(), i}]
				if mine.IsZero() || yours.IsZero() {
					continue
				}
				since := slices.MaxFunc([]time.Time{mine, yours, one.Since(), two.Since(), d.free[i]}, time.Time.Compare)
				// Until it answers both: a request that was lost has its time, and the next
				// renewal may be due only then.
				if time.Since(since) > 2*shortLease+callTimeout+shortLease/4 {
					t.Fatalf("%s and %s lead beside each other for %v after node %d could answer both", x.ID(), y.ID(), time.Since(since), i)
				}
			}
		}
	}
}
