package testredis

import (
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// Mode is what becomes of what is on its way.
type Mode int

// The modes.
const (
	Pass Mode = iota
	Hold      // it is kept on the way until the fault is over
	Drop
)

// Fault is what is wrong with a line. The zero value is none.
type Fault struct {
	Up, Down     Mode          // requests, answers
	Refuse       bool          // new connections
	LoseMessages bool          // nothing published arrives
	Unreachable  bool          // new connections, by a router's word
	Delay        time.Duration // of each way
	Far          bool          // the delay is also that of dialling and greeting, but for subscriptions
}

// The faults of most tests.
var (
	Frozen = Fault{Up: Hold, Down: Hold} // a server that accepts and never answers
	Cut    = Fault{Up: Drop, Down: Drop, Unreachable: true}
	Down   = Fault{Refuse: true}
)

// peer is a connection as the node sees it.
type peer = *server.Peer

// Node is one Redis.
type Node struct {
	Addr string
	set  *Set

	mu      sync.Mutex // guards all below
	m       *miniredis.Miniredis
	faults  map[string]Fault // by client; "" is all others
	changed chan struct{}
	pipes   map[*pipe]bool
	calls   []Call
	asked   int      // requests of any kind, without what scripts do
	answer  string   // an error that stands for every answer
	denied  []string // commands that no user may run
	full    bool     // no memory for new values
	wrote   bool     // the script that runs has written
	hook    func(Call, *server.Peer) (handled bool)
	own     peer          // of a call that runs behind a hook's back
	clients map[peer]bool // connections, which scripts are not
}

// Server is the miniredis; another one after RestartEmpty.
func (n *Node) Server() *miniredis.Miniredis {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.m
}

func (n *Node) start() {
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

// RestartEmpty is a restart without persistence.
func (n *Node) RestartEmpty() {
	old := n.Server()
	n.start()
	n.Reset("")
	old.Close()
}

// Set puts a fault on the lines of the named clients, or on all.
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

// Reset breaks the connections of a client, or all.
func (n *Node) Reset(client string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for p := range n.pipes {
		if client == "" || p.client == client {
			p.close()
		}
	}
}
