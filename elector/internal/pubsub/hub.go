package pubsub

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// Periods of a hub.
const (
	pingEvery  = 30 * time.Second // of silence: a black hole gives no other sign
	retryFirst = 50 * time.Millisecond
	retryMax   = 5 * time.Second
)

// hub is the subscription to one node.
type hub struct {
	nodes *quorum.Nodes
	node  int

	mu           sync.Mutex               // of all below
	subscribers  map[string][]*subscriber // by channel; a list is never changed in place
	joined       map[string]bool          // confirmed by the server on this connection
	ps           *redis.PubSub            // nil while nobody subscribes
	changed      chan struct{}            // the subscribers of ps have changed
	done         chan struct{}            // closed when the goroutines of ps have ended
	lastReceived time.Time
	// refused: the server answered a SUBSCRIBE with an error that may pass (LOADING
	// after a restart). The connection stays, so go-redis never subscribes again.
	refused bool
	shut    bool
}

// subscriber is one that wants the signals of a channel.
type subscriber struct{ notify func(Signal) }

func newHub(nodes *quorum.Nodes, node int) *hub {
	return &hub{nodes: nodes, node: node, subscribers: map[string][]*subscriber{}}
}

func (h *hub) add(channel string, l *subscriber) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.shut {
		return
	}
	h.subscribers[channel] = append(append([]*subscriber(nil), h.subscribers[channel]...), l)
	if h.ps == nil {
		h.start()
	}
	h.wake()
	if h.joined[channel] {
		go l.notify(Signal{Kind: Subscribed, Node: h.node, Channel: channel})
	}
}

func (h *hub) remove(channel string, l *subscriber) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var rest []*subscriber
	for _, e := range h.subscribers[channel] {
		if e != l {
			rest = append(rest, e)
		}
	}
	if len(rest) > 0 {
		h.subscribers[channel] = rest
	} else {
		delete(h.subscribers, channel)
	}
	h.wake()
}

func (h *hub) wake() {
	if h.changed == nil {
		return
	}
	select {
	case h.changed <- struct{}{}:
	default:
	}
}

// start must be called with mu held.
func (h *hub) start() {
	h.changed, h.done, h.joined, h.lastReceived = make(chan struct{}, 1), make(chan struct{}), map[string]bool{}, time.Now()
	ps, changed, done := h.nodes.Subscription(h.node), h.changed, h.done
	h.ps = ps
	ctx, cancel := context.WithCancel(context.Background())
	requested := map[string]bool{}
	first := make(chan struct{})
	reading := make(chan struct{})
	go func() { // reads; starts when there is something to read
		defer close(reading)
		select {
		case <-first:
			h.read(ctx, ps)
		case <-ctx.Done():
		}
	}()
	go func() { // writes: what is wanted, and pings
		defer close(done)
		h.write(ctx, ps, requested, changed, sync.OnceFunc(func() { close(first) }))
		cancel()
		_ = ps.Close()
		<-reading
	}()
}

// write subscribes and unsubscribes as the subscribers want it, until nobody
// subscribes any more.
func (h *hub) write(ctx context.Context, ps *redis.PubSub, requested map[string]bool, changed chan struct{}, ready func()) {
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
		add, drop, end := h.wanted(ps, requested)
		if end {
			return
		}
		// An error is the reader's to see. go-redis keeps what was requested and
		// subscribes again when it reconnects; where the server refused, the reader
		// has it requested again.
		if len(add) > 0 {
			_ = ps.Subscribe(ctx, add...)
			ready()
		}
		if len(drop) > 0 {
			_ = ps.Unsubscribe(ctx, drop...)
		}
	}
}

// wanted compares what was requested for with what is wanted; end is set, and
// the hub is free for a new start, when nobody subscribes.
func (h *hub) wanted(ps *redis.PubSub, requested map[string]bool) (add, drop []string, end bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ps != ps {
		return nil, nil, true
	}
	if len(h.subscribers) == 0 || h.shut {
		h.ps, h.changed = nil, nil
		return nil, nil, true
	}
	for ch := range h.subscribers {
		if !requested[ch] || h.refused && !h.joined[ch] {
			requested[ch] = true
			add = append(add, ch)
		}
	}
	h.refused = false
	for ch := range requested {
		if len(h.subscribers[ch]) == 0 {
			delete(requested, ch)
			delete(h.joined, ch)
			drop = append(drop, ch)
		}
	}
	return add, drop, false
}

// ping pings after a silence. Two silent periods in a row mean a dead
// connection that nobody reset: start again on a new one.
func (h *hub) ping(ctx context.Context, ps *redis.PubSub) bool {
	h.mu.Lock()
	silence := time.Since(h.lastReceived)
	if silence > 2*pingEvery && h.ps == ps {
		h.start()
		h.wake()
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
		h.dispatch(m)
	}
}

// again has the channels requested again that a server refused. A missing right stays
// missing until the connection is renewed: asking every few seconds would fill the logs
// of the server.
func (h *hub) again(ps *redis.PubSub, err error) {
	var refusal redis.Error
	if !errors.As(err, &refusal) || quorum.Permanent(err) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ps == ps {
		h.refused = true
		h.wake()
	}
}

func (h *hub) dispatch(m any) {
	h.mu.Lock()
	h.lastReceived = time.Now()
	s := Signal{Kind: Message, Node: h.node}
	switch m := m.(type) {
	case *redis.Message:
		s.Channel, s.Payload = m.Channel, m.Payload
	case *redis.Subscription:
		if m.Kind != "subscribe" {
			h.mu.Unlock()
			return
		}
		s.Kind, s.Channel = Subscribed, m.Channel
		h.joined[m.Channel] = true
	default: // a pong
		h.mu.Unlock()
		return
	}
	subscribers := h.subscribers[s.Channel]
	h.mu.Unlock()
	for _, l := range subscribers {
		l.notify(s)
	}
}

// lost notifies every subscriber that it may miss messages.
func (h *hub) lost(err error) {
	h.mu.Lock()
	clear(h.joined)
	all := make(map[string][]*subscriber, len(h.subscribers))
	maps.Copy(all, h.subscribers)
	h.mu.Unlock()
	for ch, subscribers := range all {
		failed := Signal{Kind: Failed, Node: h.node, Channel: ch, Err: h.nodes.SubscriptionError(h.node, ch, err)}
		for _, l := range subscribers {
			l.notify(failed)
		}
	}
}

// closeTimeout is how long close waits for a subscription to end: go-redis may
// be dialling a hung node, and can't be interrupted at it.
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
		go func() { _ = ps.Close() }() // frees the reader
	}
	timer := time.NewTimer(closeTimeout)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}
