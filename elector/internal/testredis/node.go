package testredis

import (
	"context"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// peer is a connection as the node sees it.
type peer = *server.Peer

// Node is one Redis.
type Node struct {
	Addr    string
	Jitter  func() time.Duration // by which data is later than Fault says; set it before the first connection
	Wire    time.Duration        // the least delay in each direction; set it before the first connection, too
	running *sync.WaitGroup      // counts the goroutines of the lines

	mu       sync.Mutex // guards all below
	m        *miniredis.Miniredis
	faults   map[string]Fault // by client; "" is for all others
	changed  chan struct{}    // closed, and replaced, when a fault changes
	pipes    map[*pipe]bool
	calls    []Call        // since the last Took
	asked    int           // number of commands that clients have sent, without those of scripts
	answer   string        // the error that answers every command; "": none
	denied   []string      // commands that no user may run
	full     bool          // no memory for new values
	readOnly bool          // it is a replica
	slow     time.Duration // that each SUBSCRIBE takes
	wrote    bool          // the script that runs has written
	hook     func(Call, *server.Peer) (handled bool)
	replica  *miniredis.Miniredis      // gets what is published; nil: there is none
	own      peer                      // on which Run executes a call without the hook
	clients  map[peer]bool             // connections of clients; a peer of a script is none
	behind   func(client string) *Node // where a new connection of a client leads; nil: to this node
}

func (n *Node) start() {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	if conn, err := m.Dial(); err == nil { // starts the server, without a listener
		conn.Close()
	}
	m.Server().SetPreHook(n.before)
	n.locked(func() { n.m = m })
}

// locked runs f with the mutex held.
func (n *Node) locked(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
}

// RestartEmpty restarts the node without its data, and closes all connections.
func (n *Node) RestartEmpty() {
	old := n.Server()
	n.start()
	n.Reset("")
	old.Close()
}

// Server returns the miniredis; RestartEmpty replaces it.
func (n *Node) Server() (m *miniredis.Miniredis) {
	n.locked(func() { m = n.m })
	return m
}

// Set sets the fault of the lines of the named clients, or of all lines.
func (n *Node) Set(f Fault, clients ...string) {
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
	if f.Refuse {
		for _, c := range clients {
			n.Reset(c)
		}
	}
}

// Heal ends all faults of the node.
func (n *Node) Heal() { n.Set(Fault{}) }

func (n *Node) fault(client string) (Fault, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f, ok := n.faults[client]
	if !ok {
		f = n.faults[""]
	}
	return f, n.changed
}

// Reset closes the connections of a client, or all if client is "".
func (n *Node) Reset(client string) {
	n.each(func(p *pipe) bool { return client == "" || p.client == client }, (*pipe).close)
}

// each calls do for the connections that are meant.
func (n *Node) each(meant func(*pipe) bool, do func(*pipe)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for p := range n.pipes {
		if meant(p) {
			do(p)
		}
	}
}

// Move has the node's name lead to another server from now on. The connections for requests go there at once, as
// after a moment during which commands failed; subscriptions stay where they are, and nothing closes them.
func (n *Node) Move(to *Node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.m = to.m
	for p := range n.pipes {
		if !p.subscribed.Load() {
			p.close()
		}
	}
}

// FailOver is Move to a server with this one's data, of which this one becomes a replica: its subscribers still get
// what is published, there.
func (n *Node) FailOver(to *Node) {
	n.replicate(to)
	n.Move(to)
}

// Demote is FailOver without Move: connections stay where they are, on a replica, and only new ones lead to the other.
func (n *Node) Demote(to *Node) {
	n.replicate(to)
	n.locked(func() { n.readOnly, n.behind = true, func(string) *Node { return to } })
}

func (n *Node) replicate(to *Node) {
	old := n.Server()
	for _, key := range old.Keys() {
		if v, err := old.Get(key); err == nil { // the history has another type
			_ = to.m.Set(key, v)
			if ttl := old.TTL(key); ttl > 0 {
				to.m.SetTTL(key, ttl)
			}
		}
	}
	to.locked(func() { to.replica = old })
}

// Balance has each new connection lead to the node that next names, as an address behind which several servers answer.
func (n *Node) Balance(next func(client string) *Node) { n.locked(func() { n.behind = next }) }

// Deafen makes all present subscriptions lead nowhere, without a sign.
func (n *Node) Deafen() {
	n.each(func(p *pipe) bool { return p.subscribed.Load() }, func(p *pipe) { p.swallowed.Store(true) })
}

// Swallow makes all present connections lead nowhere: what is sent on them is lost, and nothing is closed, as
// behind a firewall that forgot them.
func (n *Node) Swallow() {
	n.each(func(*pipe) bool { return true }, func(p *pipe) { p.swallowed.Store(true) })
}

// Dial connects a client, or fails, at once, and the commands that make a connection (HELLO, AUTH) take
// no time, whatever the fault: go-redis' PubSub dials and greets with its mutex held, and a
// bubble's clock stands still while another goroutine waits for a mutex. (In the Real tests servers
// hang there, too.) With Fault.Far, connections for requests take time to make.
func (n *Node) Dial(ctx context.Context, client string) (net.Conn, error) {
	f, _ := n.fault(client)
	far := f.Far && !subscribing()
	if far {
		select {
		case <-time.After(time.Duration(1+f.Handshakes) * 2 * f.Delay):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	switch f, _ := n.fault(client); {
	case f.Refuse:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	case f.Unreachable:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.EHOSTUNREACH}
	}
	to := n
	n.locked(func() {
		if n.behind != nil {
			to = n.behind(client)
		}
	})
	server, err := to.Server().Dial()
	if err != nil {
		return nil, err
	}
	conn, near := net.Pipe()
	p := &pipe{client: client, near: near, server: server, far: far, jitter: n.Jitter, wire: n.Wire, dead: make(chan struct{})}
	p.fault = func() (Fault, <-chan struct{}) { return n.fault(client) }
	n.locked(func() { n.pipes[p] = true })
	n.running.Go(func() {
		p.run()
		n.locked(func() { delete(n.pipes, p) })
	})
	return conn, nil
}
