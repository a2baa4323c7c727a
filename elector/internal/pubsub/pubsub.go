// Package pubsub keeps one subscription to each Redis node, which all electors on a Quorum
// share.
//
// A message is a hint: messages get lost, forged and replayed, so no state is taken from
// one without reading it from Redis.
//
// The life of a link, the subscription to one node:
//
//   - Dial: the first Subscribe makes a connection, with a goroutine that writes and one that reads (connect, write,
//     read). When it is lost go-redis makes another, and subscribes to all channels again.
//   - Subscribe: the writer requests what has changed (next). What the node refuses is requested again, on the same
//     connection, at first after 50 ms and in the end once a minute (failed, retry).
//   - Test: a connection that is in order may receive nothing. The link publishes to itself, and looks whether that
//     arrives and how many have received it (selftest.go).
//   - Replace: if the test fails, a new connection takes the place of the old one (deaf).
//
// Without subscriptions a link closes its connection.
package pubsub

import (
	"crypto/rand"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/nodes"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// Bus shares the subscriptions to a set of nodes. Safe for concurrent use.
type Bus struct {
	nodes *nodes.Nodes
	links []*link // by node

	mu     sync.Mutex // of all below
	own    string     // the channel on which this process receives what it publishes to itself
	echoed time.Time  // when Echo last returned it
}

// New does no I/O: the Bus connects to a node only while there are subscriptions.
func New(nodes *nodes.Nodes) *Bus {
	b := &Bus{nodes: nodes}
	for i := range nodes.Len() {
		b.links = append(b.links, &link{nodes: nodes, node: i, topics: map[string]*topic{}})
	}
	return b
}

// Subscribe subscribes to a channel on every node. It returns at once; a Signal that a node has
// confirmed it follows, from each. filter is called with each signal on the goroutine that reads the
// subscription to a node, must not block, and returns whether to keep the signal until it is taken.
// Of messages that nobody takes, the first so many are kept.
func (b *Bus) Subscribe(channel string, most int, filter func(Signal) bool) *Subscription {
	b.mu.Lock()
	if b.own == "" { // beside a channel that is subscribed to, so that the same rights cover it
		b.own = protocol.Echo(channel, rand.Text())
	}
	b.mu.Unlock()
	s := NewSubscription(len(b.links), most, filter)
	s.channel = channel
	s.close = func() {
		for _, l := range b.links {
			l.remove(s)
		}
	}
	for i, l := range b.links {
		if l.add(s) {
			s.Receive(Signal{Kind: Subscribed, Node: i})
		}
	}
	return s
}

// Subscribers returns how many subscriptions of this Bus a channel has. A node counts them as one,
// because they share a connection.
func (b *Bus) Subscribers(channel string) int { return b.links[0].subscribers(channel) }

// Check has the subscriptions tested that have received nothing of this process for every: what the Bus
// publishes to itself on a node must arrive within that time, or the subscription to that node is made anew.
// A connection that is in order may lead to a server whose name has moved to another one since, or into a
// firewall that has forgotten it. claimed are answers to a claim: where nobody has received what it published on
// Echo's channel, the test is made at once. Check does not block, and without subscriptions it does nothing.
func (b *Bus) Check(every, within time.Duration, claimed ...protocol.Answer) {
	b.mu.Lock()
	own := b.own
	b.mu.Unlock()
	for i, l := range b.links {
		doubted := i < len(claimed) && claimed[i].Status != protocol.Unknown && claimed[i].Subscribers == 0
		l.check(own, every, within, doubted && !b.nodes.Cluster(i))
	}
}

// Echo returns the channel to which the next claim, which is sent to all nodes anyway, should publish: a follower then
// needs no request to test its subscriptions. It is empty if another claim did so within every.
func (b *Bus) Echo(every time.Duration) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Since(b.echoed) < every {
		return ""
	}
	b.echoed = time.Now()
	return b.own
}

// Close ends the subscriptions, and waits for the end of each for a bounded time. It may be
// called twice.
func (b *Bus) Close() {
	for _, l := range b.links {
		l.close()
	}
}

// Kind is the kind of a Signal.
type Kind int

// The kinds of signals.
const (
	Message    Kind = iota // a message was published
	Subscribed             // the node confirmed the subscription, perhaps again: messages may have been missed before
	Failed                 // the subscription failed: messages are missed until the next Subscribed
)

// Signal is a message on a channel of one node, or a change of the subscription to it.
type Signal struct {
	Kind    Kind
	Node    int
	Payload string
	Err     error // of Failed; names the node
}
