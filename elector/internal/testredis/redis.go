// Package testredis is Redis nodes in the memory of a synctest bubble, for the tests of
// this project: between each client and each node is a line with faults, and each node
// records the script calls that it receives. It knows no elector: package testcluster adds
// the candidates.
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

// Set is some nodes, and the lines to them.
type Set struct {
	T       *testing.T
	Nodes   []*Node
	scripts Scripts
	running sync.WaitGroup // the lines
}

// Bubble runs f with n nodes in a bubble of its own, and waits for what f left in the
// background: it ends by its own bounds.
func Bubble(t *testing.T, n int, scripts Scripts, f func(t *testing.T, s *Set)) {
	t.Helper()
	defer oneP()()
	synctest.Test(t, func(t *testing.T) {
		s := &Set{T: t, scripts: scripts}
		for i := range n {
			s.Nodes = append(s.Nodes, s.NewNode(fmt.Sprintf("127.0.0.1:%d", 7001+i)))
		}
		t.Cleanup(s.close)
		f(t, s)
	})
}

func (s *Set) close() {
	for _, n := range s.Nodes {
		n.Reset("")
		n.Server().Close()
	}
	s.running.Wait()
	time.Sleep(time.Minute)
	synctest.Wait()
}

// NewNode starts an empty node that belongs to no quorum yet. Put it among the Nodes, or
// close its server.
func (s *Set) NewNode(addr string) *Node {
	n := &Node{Addr: addr, scripts: s.scripts, running: &s.running, faults: map[string]Fault{}, changed: make(chan struct{}), pipes: map[*pipe]bool{}, clients: map[peer]bool{}}
	n.start()
	return n
}

// Client is a client of a node, on lines that bear the name.
func (s *Set) Client(name string, node int, change ...func(*redis.Options)) *redis.Client {
	n := s.Nodes[node]
	o := &redis.Options{
		Addr:   n.Addr,
		Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) { return n.dial(ctx, name) },
	}
	for _, f := range change {
		f(o)
	}
	return redis.NewClient(o)
}

// Each puts a fault on the lines of the named clients, or on all, to all nodes.
func (s *Set) Each(f Fault, clients ...string) {
	for _, n := range s.Nodes {
		n.Set(f, clients...)
	}
}

// Heal ends all faults.
func (s *Set) Heal() {
	for _, n := range s.Nodes {
		n.Heal()
	}
}

// Holding is how many nodes have a key.
func (s *Set) Holding(key string) (count int) {
	for _, n := range s.Nodes {
		if n.Server().Exists(key) {
			count++
		}
	}
	return count
}
