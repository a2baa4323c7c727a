package elector_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

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
