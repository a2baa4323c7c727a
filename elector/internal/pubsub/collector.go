package pubsub

import (
	"context"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// Collector keeps the messages of a channel until they are taken.
type Collector struct {
	unsubscribe func()
	arrived     chan struct{}
	joined      chan struct{} // closed when every node has confirmed or refused the subscription

	mu       sync.Mutex // of all below
	messages []Signal
	nodes    map[int]error // by node; nil: it has confirmed the subscription, else why it refuses it permanently
}

// maxMessages is more than the candidates of any election.
const maxMessages = 10_000

// Collect starts to collect the messages of a channel. It drops those longer than maxSize bytes.
func (b *Bus) Collect(channel string, maxSize int) *Collector {
	c := &Collector{arrived: make(chan struct{}, 1), joined: make(chan struct{}), nodes: map[int]error{}}
	c.unsubscribe = b.Subscribe(channel, func(s Signal) {
		c.mu.Lock()
		defer c.mu.Unlock()
		switch {
		case s.Kind == Subscribed || s.Kind == Failed && rediserr.RefusedSubscribe(s.Err):
			if _, again := c.nodes[s.Node]; again {
				return
			}
			c.nodes[s.Node] = s.Err
			if len(c.nodes) == len(b.hubs) {
				close(c.joined)
			}
		case s.Kind == Message && len(s.Payload) <= maxSize && len(c.messages) < maxMessages:
			c.messages = append(c.messages, s)
			select {
			case c.arrived <- struct{}{}:
			default:
			}
		}
	})
	return c
}

// Close stops collecting.
func (c *Collector) Close() { c.unsubscribe() }

// Ready blocks until every node has confirmed or refused the subscription, for limit at most, or
// until ctx ends. It returns errors, by node, only if every node refuses, so that no message can
// arrive.
func (c *Collector) Ready(ctx context.Context, limit time.Duration) (refused []error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-c.joined:
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range len(c.nodes) {
		if c.nodes[i] == nil {
			return nil
		}
		refused = append(refused, c.nodes[i])
	}
	return refused
}

// Arrived is signaled when there is something to take.
func (c *Collector) Arrived() <-chan struct{} { return c.arrived }

// Take returns the messages collected since the last call.
func (c *Collector) Take() []Signal {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.messages
	c.messages = nil
	return all
}
