package pubsub

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/quorum"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// Periods of a hub.
const (
	pingEvery  = 30 * time.Second // without a message: nothing else shows that packets are dropped silently
	retryFirst = 50 * time.Millisecond
	retryMax   = time.Second // a node that was loading its data is heard again soon
)

// hub is the subscription to one node.
type hub struct {
	nodes *quorum.Nodes
	node  int

	mu           sync.Mutex // of all below
	topics       topics
	ps           *redis.PubSub // nil while there is no subscriber
	changed      chan struct{} // signaled when the topics have changed: wakes the writer of ps
	done         chan struct{} // closed when the goroutines of ps have ended
	lastReceived time.Time
	shut         bool // close was called
}

func newHub(nodes *quorum.Nodes, node int) *hub {
	return &hub{nodes: nodes, node: node, topics: topics{all: map[string]*topic{}}}
}

func (h *hub) add(channel string, l *subscriber) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.shut {
		return
	}
	joined := h.topics.add(channel, l)
	if h.ps == nil {
		h.start()
	}
	h.wake()
	if joined {
		go l.notify(Signal{Kind: Subscribed, Node: h.node, Channel: channel})
	}
}

func (h *hub) remove(channel string, l *subscriber) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.topics.remove(channel, l)
	h.wake()
}

// wake makes the writer check the topics that were altered. The caller holds mu.
func (h *hub) wake() {
	if h.changed == nil || !h.shut && len(h.topics.altered) == 0 {
		return
	}
	select {
	case h.changed <- struct{}{}:
	default:
	}
}

// start opens a subscription and starts its reader and its writer. The caller holds mu.
func (h *hub) start() {
	h.changed, h.done, h.lastReceived = make(chan struct{}, 1), make(chan struct{}), time.Now()
	h.topics.renew()
	h.wake()
	ps, changed, done := h.nodes.Subscription(h.node), h.changed, h.done
	h.ps = ps
	ctx, cancel := context.WithCancel(context.Background())
	first := make(chan struct{})
	reading := make(chan struct{})
	go func() { // the reader; starts when the first channels have been requested
		defer close(reading)
		select {
		case <-first:
			h.read(ctx, ps)
		case <-ctx.Done():
		}
	}()
	go func() { // the writer: subscribes, unsubscribes and pings
		defer close(done)
		h.write(ctx, ps, changed, sync.OnceFunc(func() { close(first) }))
		cancel()
		_ = ps.Close()
		<-reading
	}()
}

// write subscribes to and unsubscribes from channels as the topics require, until there is no
// subscriber any more.
func (h *hub) write(ctx context.Context, ps *redis.PubSub, changed chan struct{}, ready func()) {
	tick := time.NewTicker(pingEvery)
	defer tick.Stop()
	for {
		select {
		case <-changed:
		case <-tick.C:
			if !h.ping(ctx, ps) {
				return
			}
			continue
		}
		add, drop, end := h.wanted(ps)
		if end {
			return
		}
		// The reader sees any error. go-redis remembers what was requested, and subscribes
		// again when it reconnects; after a refusal by the server, the reader has the channels
		// requested again.
		if len(add) > 0 {
			_ = ps.Subscribe(ctx, add...)
			ready()
		}
		if len(drop) > 0 {
			_ = ps.Unsubscribe(ctx, drop...)
		}
	}
}

// wanted returns the channels to subscribe to and to unsubscribe from. end is set when ps is to be
// closed: it was replaced, there is no subscriber any more, or the hub was shut. In the last two
// cases the hub is ready for a new start.
func (h *hub) wanted(ps *redis.PubSub) (add, drop []string, end bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ps != ps {
		return nil, nil, true
	}
	if h.topics.active == 0 || h.shut {
		h.ps, h.changed = nil, nil
		if h.topics.active == 0 {
			h.topics = topics{all: map[string]*topic{}}
		}
		return nil, nil, true
	}
	add, drop = h.topics.due()
	return add, drop, false
}

// ping sends a ping when nothing was received for pingEvery. After twice that time the connection
// is dead although it was never reset: ping starts a new subscription, and returns false.
func (h *hub) ping(ctx context.Context, ps *redis.PubSub) bool {
	h.mu.Lock()
	silence := time.Since(h.lastReceived)
	if silence > 2*pingEvery && h.ps == ps {
		h.start()
		h.mu.Unlock()
		return false
	}
	h.mu.Unlock()
	if silence >= pingEvery {
		_ = ps.Ping(ctx)
	}
	return true
}

func (h *hub) read(ctx context.Context, ps *redis.PubSub) {
	backoff := retryFirst
	var all []*subscriber // of one signal; reused
	for ctx.Err() == nil {
		m, err := ps.Receive(ctx)
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, redis.ErrClosed) {
				return
			}
			h.lost(err)
			select {
			case <-ctx.Done():
			case <-time.After(backoff):
			}
			backoff = min(2*backoff, retryMax)
			h.again(ps, err)
			continue
		}
		backoff = retryFirst
		all = h.dispatch(m, all)
		clear(all)
	}
}

// again requests the channels again that the server refused with a temporary error (LOADING after
// a restart): the connection stays open, so go-redis does not subscribe again. A missing right is
// not requested again until the connection is renewed: a request every few seconds would fill the
// server's log.
func (h *hub) again(ps *redis.PubSub, err error) {
	var refusal redis.Error
	if !errors.As(err, &refusal) || rediserr.Permanent(err) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ps == ps {
		h.topics.again()
		h.wake()
	}
}

// dispatch notifies the subscribers of a channel, without holding mu. It reuses room for their
// list, and returns the list.
func (h *hub) dispatch(m any, room []*subscriber) []*subscriber {
	s, all := h.signal(m, room[:0])
	if len(all) > 1 {
		s.parsed = new(any)
	}
	for _, l := range all {
		l.notify(s)
	}
	return all
}

// signal converts what was received to a Signal, and appends the subscribers of its channel to all.
func (h *hub) signal(m any, all []*subscriber) (Signal, []*subscriber) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lastReceived = time.Now()
	s := Signal{Kind: Message, Node: h.node}
	switch m := m.(type) {
	case *redis.Message:
		s.Channel, s.Payload = m.Channel, m.Payload
	case *redis.Subscription:
		if m.Kind != "subscribe" {
			return s, all
		}
		s.Kind, s.Channel = Subscribed, m.Channel
	default: // a pong
		return s, all
	}
	return s, h.topics.received(s, all)
}

// lost notifies every subscriber that it may miss messages.
func (h *hub) lost(err error) {
	h.mu.Lock()
	all := h.topics.lost()
	h.mu.Unlock()
	for ch, subscribers := range all {
		failed := Signal{Kind: Failed, Node: h.node, Channel: ch, Err: h.nodes.SubscriptionError(h.node, ch, err)}
		for _, l := range subscribers {
			l.notify(failed)
		}
	}
}

// closeTimeout is how long close waits for a subscription to end: go-redis may be dialling a
// hung node, which can't be interrupted.
const closeTimeout = 100 * time.Millisecond

// close ends the subscription and waits for its goroutines, for a bounded time.
func (h *hub) close() {
	h.mu.Lock()
	h.shut = true
	done := h.done
	ps := h.ps
	h.wake()
	h.mu.Unlock()
	if done == nil {
		return // never started
	}
	if ps != nil {
		go func() { _ = ps.Close() }() // unblocks the reader
	}
	timer := time.NewTimer(closeTimeout)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}
