// Package pubsub is the one subscription to each Redis node that all electors of a
// process share, and the collecting of answers that are published there.
//
// A message is a hint: messages get lost, forged and replayed, and no state is taken
// from one without asking Redis.
package pubsub

import (
	"context"

	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// Bus shares the subscriptions to a set of nodes. Safe for concurrent use.
type Bus struct {
	nodes *quorum.Nodes
	hubs  []*hub // by node
	turns turns
}

// New does no I/O: a node is subscribed to while there is a subscriber to its messages.
func New(nodes *quorum.Nodes) *Bus {
	b := &Bus{nodes: nodes, turns: newTurns()}
	for i := range nodes.Len() {
		b.hubs = append(b.hubs, newHub(nodes, i))
	}
	return b
}

// Subscribe has notify called for every signal of a channel, of every node, on the
// goroutine that reads the subscription: it must not block. Subscribe does not wait for
// the subscription. The returned function ends it, and may be called twice.
func (b *Bus) Subscribe(channel string, notify func(Signal)) (unsubscribe func()) {
	subs := make([]*subscriber, len(b.hubs))
	for i, h := range b.hubs {
		subs[i] = &subscriber{notify: notify}
		h.add(channel, subs[i])
	}
	return func() {
		for i, h := range b.hubs {
			h.remove(channel, subs[i])
		}
	}
}

// Subscribers is how many subscribe to a channel here. A node counts them as one: they share
// a connection.
func (b *Bus) Subscribers(channel string) int {
	h := b.hubs[0]
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.topics.all[channel]; t != nil {
		return len(t.subscribers)
	}
	return 0
}

// Turn waits for the turn of a request that awaits answers, or for the end of ctx. Call done when
// it has been answered.
func (b *Bus) Turn(ctx context.Context) (done func()) { return b.turns.take(ctx) }

// Close ends the subscriptions, and waits for each for a bounded time. Safe to call
// twice.
func (b *Bus) Close() {
	for _, h := range b.hubs {
		h.close()
	}
}
