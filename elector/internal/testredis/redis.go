// Package testredis runs Redis nodes in memory, in a synctest bubble, for the tests of this
// project. Each client has a line to each node, on which a test can set faults, and each node
// records the script calls that it receives. The package does not depend on package elector:
// package testcluster adds the candidates.
package testredis

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
)

// Set is a set of nodes, and the lines to them.
type Set struct {
	T       *testing.T // nil outside of Bubble
	Nodes   []*Node
	running sync.WaitGroup // counts the goroutines of the lines
}

// Bubble runs f with n nodes in a bubble of its own. It then waits for the goroutines that f left
// in the background, which end by their own time-outs.
func Bubble(t *testing.T, n int, f func(t *testing.T, s *Set)) {
	t.Helper()
	defer OneProcessor()()
	synctest.Test(t, func(t *testing.T) {
		s := New(n)
		s.T = t
		t.Cleanup(func() {
			s.end()
			time.Sleep(time.Minute)
			synctest.Wait()
		})
		f(t, s)
	})
}

// New starts n nodes.
func New(n int) *Set {
	s := &Set{}
	for i := range n {
		s.Nodes = append(s.Nodes, s.NewNode(fmt.Sprintf("127.0.0.1:%d", 7001+i)))
	}
	return s
}

// Close ends the nodes, and waits for the ends of the lines to them. Nobody may connect any more.
func (s *Set) Close() {
	s.end()
	s.running.Wait()
}

func (s *Set) end() {
	for _, n := range s.Nodes {
		n.Reset("")
		n.Server().Close()
	}
}

// NewNode starts an empty node that is not in Nodes. Add it to Nodes, or close its server.
func (s *Set) NewNode(addr string) *Node {
	n := &Node{Addr: addr, Wire: Wire, Jitter: func() time.Duration { return 0 }, running: &s.running, faults: map[string]Fault{}, changed: make(chan struct{}), pipes: map[*pipe]bool{}, clients: map[peer]bool{}}
	n.start()
	return n
}

// Client returns a client of a node. Faults are set on its lines by name.
func (s *Set) Client(name string, node int, change ...func(*redis.Options)) *redis.Client {
	n := s.Nodes[node]
	o := &redis.Options{
		Addr:   n.Addr,
		Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) { return n.Dial(ctx, name) },
	}
	for _, f := range change {
		f(o)
	}
	return redis.NewClient(o)
}

// Each sets the fault of the lines of the named clients, or of all lines, to all nodes.
func (s *Set) Each(f Fault, clients ...string) {
	for _, n := range s.Nodes {
		n.Set(f, clients...)
	}
}

// Heal ends all faults.
func (s *Set) Heal() { s.Each(Fault{}) }

// Holding returns how many nodes have a key.
func (s *Set) Holding(key string) (count int) {
	for _, n := range s.Nodes {
		if n.Server().Exists(key) {
			count++
		}
	}
	return count
}
