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
	joined      chan struct{} // closed when all nodes have taken or refused the subscription

	mu       sync.Mutex // of all below
	messages []Signal
	nodes    map[int]error // nil: it has taken the subscription; else why it never will
}

// maxMessages is more than any election has candidates.
const maxMessages = 10_000

// Collect starts collecting; longer messages than maxSize are dropped.
func (b *Bus) Collect(channel string, maxSize int) *Collector {
	c := &Collector{arrived: make(chan struct{}, 1), joined: make(chan struct{}), nodes: map[int]error{}}
	c.unsubscribe = b.Subscribe(channel, func(s Signal) {
		c.mu.Lock()
		defer c.mu.Unlock()
		switch {
		case s.Kind == Subscribed || s.Kind == Failed && rediserr.Permanent(s.Err):
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

// Close ends the collecting.
func (c *Collector) Close() { c.unsubscribe() }

// Ready waits until all nodes are subscribed to, at most for the limit. The errors, by
// node, are why no message can arrive: every node refuses.
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

// Take empties the collection.
func (c *Collector) Take() []Signal {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.messages
	c.messages = nil
	return all
}
