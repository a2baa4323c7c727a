package elector_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector"
)

// The cluster: Redis nodes in the memory of a synctest bubble, and between each
// client and each node a line with faults. The stack above it is the real one.

type mode int

const (
	pass mode = iota
	hold      // kept on the way until the fault is over
	drop
)

// fault is what is wrong with a line.
type fault struct {
	up, down    mode          // requests, answers
	refuse      bool          // new connections
	deaf        bool          // nothing published arrives
	unreachable bool          // new connections, by a router's word
	delay       time.Duration // of each way
	far         bool          // the delay is also that of dialling and greeting, but for subscriptions
}

var (
	frozen = fault{up: hold, down: hold} // a server that accepts and never answers
	cut    = fault{up: drop, down: drop, unreachable: true}
	down   = fault{refuse: true}
)

type cluster struct {
	t     *testing.T
	nodes []*node
	wg    sync.WaitGroup
}

type node struct {
	c    *cluster
	addr string

	mu      sync.Mutex
	m       *miniredis.Miniredis
	faults  map[string]fault // by client; "" is all others
	changed chan struct{}
	pipes   map[*pipe]bool
	calls   []call
	asked   int    // requests of any kind, without what scripts do
	answer  string // an error that stands for every answer
	hook    func(call, *server.Peer) (handled bool)
	own     *server.Peer          // of a call that runs behind a hook's back
	clients map[*server.Peer]bool // connections, which scripts are not
}

// bubble runs f on n nodes in a bubble of its own.
func bubble(t *testing.T, n int, f func(t *testing.T, c *cluster)) {
	t.Helper()
	defer oneP()()
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{t: t}
		for i := range n {
			nd := &node{c: c, addr: fmt.Sprintf("127.0.0.1:%d", 7001+i), faults: map[string]fault{}, changed: make(chan struct{}), pipes: map[*pipe]bool{}}
			nd.start()
			c.nodes = append(c.nodes, nd)
		}
		t.Cleanup(c.close)
		f(t, c)
	})
}

func (c *cluster) close() {
	for _, n := range c.nodes {
		n.reset("")
		n.server().Close()
	}
	c.wg.Wait()
	time.Sleep(time.Minute) // what was left in the background ends by its own bounds
	synctest.Wait()
}

func (c *cluster) client(name string, i int) *redis.Client {
	n := c.nodes[i]
	return redis.NewClient(&redis.Options{
		Addr:   n.addr,
		Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) { return n.dial(ctx, name) },
	})
}

// quorum has connections of its own, on lines that bear the client's name.
func (c *cluster) quorum(name string) *elector.Quorum {
	c.t.Helper()
	var all []int
	for i := range c.nodes {
		all = append(all, i)
	}
	return c.quorumOf(name, all...)
}

// quorumOf is quorum on some of the nodes, in that order.
func (c *cluster) quorumOf(name string, nodes ...int) *elector.Quorum {
	c.t.Helper()
	var clients []redis.UniversalClient
	for _, i := range nodes {
		cl := c.client(name, i)
		defer cl.Close() // only its options are needed
		clients = append(clients, cl)
	}
	q, err := elector.NewQuorum(clients...)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { q.Close() })
	return q
}

func (n *node) server() *miniredis.Miniredis {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.m
}

func (n *node) start() {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	if conn, err := m.Dial(); err == nil { // starts it, without a listener
		conn.Close()
	}
	m.Server().SetPreHook(n.before)
	n.mu.Lock()
	n.m = m
	n.mu.Unlock()
}

// restartEmpty is a restart without persistence.
func (n *node) restartEmpty() {
	old := n.server()
	n.start()
	n.reset("")
	old.Close()
}

// set puts a fault on the lines of the named clients, or on all.
func (n *node) set(f fault, clients ...string) {
	n.mu.Lock()
	if len(clients) == 0 {
		clear(n.faults)
		clients = []string{""}
	}
	for _, c := range clients {
		n.faults[c] = f
	}
	close(n.changed)
	n.changed = make(chan struct{})
	n.mu.Unlock()
	if f.refuse {
		for _, c := range clients {
			n.reset(c)
		}
	}
}

func (n *node) heal() { n.set(fault{}) }

func (n *node) fault(client string) (fault, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f, ok := n.faults[client]
	if !ok {
		f = n.faults[""]
	}
	return f, n.changed
}

// reset breaks the connections of a client, or all.
func (n *node) reset(client string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for p := range n.pipes {
		if client == "" || p.client == client {
			p.close()
		}
	}
}

// each puts a fault on the lines of a client (or of all) to all nodes.
func (c *cluster) each(f fault, clients ...string) {
	for _, n := range c.nodes {
		n.set(f, clients...)
	}
}

func (c *cluster) heal() {
	for _, n := range c.nodes {
		n.heal()
	}
}

const (
	lockKey  = "mandate:{orders}:lock"
	fenceKey = "mandate:{orders}:fence"
)

func (c *cluster) locks() (n int) {
	for _, nd := range c.nodes {
		if nd.server().Exists(lockKey) {
			n++
		}
	}
	return n
}

// seed lets one term pass, so that no node is new to the election.
func (c *cluster) seed() *elector.Term {
	c.t.Helper()
	s := c.start("seed")
	term := s.elected(3 * shortLease)
	time.Sleep(shortLease / 2) // a renewal copies the token to all nodes
	s.shutdown()
	time.Sleep(10 * time.Millisecond)
	return term
}
