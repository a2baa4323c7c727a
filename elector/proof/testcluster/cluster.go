// Package testcluster is the one cluster in memory that the tests of elector, and of what
// is built on it, run on: the nodes and faults of package testredis, and candidates whose
// every layer is the real one. It is for this repository's own tests: any name of it may change with
// any release. Programs that embed elector test with electortest.
package testcluster

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/testredis"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

// The keys of the election, which is called orders.
const (
	LockKey  = "mandate:{orders}:lock"
	FenceKey = "mandate:{orders}:fence"
)

// Cluster is some nodes, and makes candidates on them.
type Cluster struct{ *testredis.Set }

// Bubble runs f with n nodes in a bubble of its own.
func Bubble(t *testing.T, n int, f func(t *testing.T, c *Cluster)) {
	t.Helper()
	testredis.Bubble(t, n, func(t *testing.T, s *testredis.Set) { f(t, &Cluster{s}) })
}

// Quorum has connections of its own, on lines that bear the client's name, to these nodes in that order, or to all.
func (c *Cluster) Quorum(name string, nodes ...int) *elector.Quorum {
	c.T.Helper()
	if len(nodes) == 0 {
		for i := range c.Nodes {
			nodes = append(nodes, i)
		}
	}
	var clients []redis.UniversalClient
	for _, i := range nodes {
		cl := c.Client(name, i)
		defer cl.Close() // only its options are needed
		clients = append(clients, cl)
	}
	q, err := elector.NewQuorum(clients...)
	servertest.Must(c.T, err)
	c.T.Cleanup(func() { q.Close() })
	return q
}

// Open is a quorum on these URLs until the end of the test.
func Open(t testing.TB, urls ...string) *elector.Quorum {
	t.Helper()
	q, err := elector.Open(urls...)
	servertest.Must(t, err)
	t.Cleanup(func() { _ = q.Close() })
	return q
}

// Hang makes these nodes take every request, and answer none.
func (c *Cluster) Hang(nodes ...int) {
	for _, i := range nodes {
		c.Nodes[i].Set(testredis.Frozen)
	}
}

// Start makes a candidate with connections of its own and runs it.
func (c *Cluster) Start(id string, change ...func(*elector.Config)) *Candidate {
	c.T.Helper()
	return c.StartOn(id, nil, change...)
}

// StartOn is Start with some of the nodes, in that order.
func (c *Cluster) StartOn(id string, nodes []int, change ...func(*elector.Config)) *Candidate {
	c.T.Helper()
	return NewCandidate(c.T, c.Quorum(id, nodes...), id, change...).Begin(nil)
}

// Locks is how many nodes hold a lock.
func (c *Cluster) Locks() int { return c.Holding(LockKey) }

// Seed lets one term pass, so that no node is new to the election.
func (c *Cluster) Seed() *elector.Term {
	c.T.Helper()
	s := c.Start("seed")
	term := s.Elected(3 * Lease)
	time.Sleep(Lease / 2) // a renewal copies the token to all nodes
	s.Shutdown()
	time.Sleep(10 * time.Millisecond)
	return term
}

// TwoLeaders makes two candidates of five nodes lead at once, each on a majority of its own
// list. The first node, which both lists name, is down.
func (c *Cluster) TwoLeaders() (a *Candidate, one *elector.Term, b *Candidate, two *elector.Term) {
	c.T.Helper()
	c.Seed()
	a = c.StartOn("a", []int{0, 1, 2})
	one = a.Elected(3 * Lease)
	time.Sleep(3 * Lease)
	c.Nodes[0].Set(testredis.Down)
	b = c.StartOn("b", []int{0, 3, 4})
	return a, one, b, b.Elected(3 * Lease)
}
