// Package pubsub keeps one subscription to each Redis node, which all electors on a Quorum
// share, and collects answers that are published to it.
//
// A message is a hint: messages get lost, forged and replayed, so no state is taken from
// one without reading it from Redis.
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

// New does no I/O: the Bus connects to a node only while there are subscribers.
func New(nodes *quorum.Nodes) *Bus {
	b := &Bus{nodes: nodes, turns: newTurns()}
	for i := range nodes.Len() {
		b.hubs = append(b.hubs, newHub(nodes, i))
	}
	return b
}

// Subscribe calls notify for every signal of a channel on every node. notify runs on the
// goroutine that reads the subscription, and must not block. Subscribe returns at once: a
// Subscribed signal from each node follows. The returned function unsubscribes, and may be
// called twice.
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

// Subscribers returns how many subscribers of this Bus a channel has. A node counts them as one,
// because they share a connection.
func (b *Bus) Subscribers(channel string) int {
	h := b.hubs[0]
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.topics.all[channel]; t != nil {
		return len(t.subscribers)
	}
	return 0
}

// Turn blocks until a request that awaits answers may be sent, or until ctx ends. Call done when
// the request has been answered.
func (b *Bus) Turn(ctx context.Context) (done func()) { return b.turns.take(ctx) }

// Close ends the subscriptions, and waits for the end of each for a bounded time. It may be
// called twice.
func (b *Bus) Close() {
	for _, h := range b.hubs {
		h.close()
	}
}
