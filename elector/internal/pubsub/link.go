package pubsub

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/lease"
	"github.com/mandate-dev/mandate/elector/internal/nodes"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// Periods of a link.
const (
	retryFirst   = 50 * time.Millisecond
	retryMax     = time.Second // of a lost connection
	retryRefused = time.Minute // of what the node has refused: a right, or anything while it is busy
	// closeTimeout is how long close waits for a subscription to end: go-redis may be dialling a
	// hung node, which can't be interrupted.
	closeTimeout = 100 * time.Millisecond
)

// link is the subscription to one node. A process with ten thousand elections has several channels for
// each, so a change by one subscription must not cost an iteration over all of them.
type link struct {
	nodes *nodes.Nodes
	node  int

	mu      sync.Mutex // of all below
	topics  map[string]*topic
	altered []string      // channels that the writer has to look at
	conn    *conn         // nil while there is no subscription
	own     string        // the channel on which the link receives what it publishes; "": no test was made yet
	backoff time.Duration // before what was refused is requested again; 0: nothing was
	closed  bool
}

// topic is a channel that has subscriptions, or had some a moment ago.
type topic struct {
	subs      []*Subscription
	requested bool // on the link's connection
	confirmed bool
}

// conn is a subscription of go-redis, which makes its connection anew and subscribes again by itself. The
// link's mutex guards its fields.
type conn struct {
	ps      *redis.PubSub
	changed chan struct{} // signaled when the writer has something to do
	done    chan struct{} // closed when its goroutines have ended

	refused    bool          // the node has refused a channel; all are requested again later
	untestable bool          // the node refuses PING
	tested     time.Time     // when the last test was requested, or something of this process arrived
	within     time.Duration // of the test that is due; 0: none is
	awaited    bool          // a test has not come back yet
}

// add adds a subscription, and reports whether the node has confirmed its channel already.
func (l *link) add(s *Subscription) (confirmed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	t := l.topics[s.channel]
	if t == nil {
		t = &topic{}
		l.topics[s.channel] = t
	}
	t.subs = append(t.subs, s)
	if !t.requested {
		l.altered = append(l.altered, s.channel)
	}
	if l.conn == nil {
		l.connect()
	}
	l.conn.wake()
	return t.confirmed
}

func (l *link) remove(s *Subscription) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.topics[s.channel]
	if t == nil {
		return
	}
	t.subs = slices.DeleteFunc(t.subs, func(other *Subscription) bool { return other == s })
	if len(t.subs) == 0 {
		l.altered = append(l.altered, s.channel)
		if l.conn != nil {
			l.conn.wake()
		}
	}
}

func (l *link) subscribers(channel string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.topics[channel]; t != nil {
		return len(t.subs)
	}
	return 0
}

// wake makes the writer look at what has changed.
func (c *conn) wake() { Wake(c.changed) }

// connect makes a subscription to all channels, in place of the one before. The caller holds mu.
func (l *link) connect() {
	c := &conn{ps: l.nodes.Subscription(l.node), changed: make(chan struct{}, 1), done: make(chan struct{}), tested: time.Now()}
	l.conn = c
	l.request(c)
	go l.write(c)
}

// request has the writer subscribe to all channels. The caller holds mu.
func (l *link) request(c *conn) {
	for channel, t := range l.topics {
		t.requested, t.confirmed = false, false
		l.altered = append(l.altered, channel)
	}
	c.wake()
}

// write subscribes to and unsubscribes from channels as the topics require, and tests the subscription,
// until there is nothing to subscribe to any more, or another connection has replaced this one.
func (l *link) write(c *conn) {
	ctx, cancel := context.WithCancel(context.Background())
	var reader sync.WaitGroup
	defer func() {
		cancel()
		_ = c.ps.Close()
		reader.Wait()
		close(c.done)
	}()
	read := sync.OnceFunc(func() { reader.Go(func() { l.read(ctx, c) }) })
	overdue := time.NewTimer(time.Hour)
	defer overdue.Stop()
	for {
		select {
		case <-c.changed:
		case <-overdue.C:
			l.judge(c)
		}
		add, drop, within, end := l.next(c)
		if end {
			return
		}
		// The reader sees any error.
		if len(add) > 0 {
			_ = c.ps.Subscribe(ctx, add...)
			read()
		}
		if len(drop) > 0 {
			_ = c.ps.Unsubscribe(ctx, drop...)
		}
		if within > 0 {
			l.test(ctx, c, within)
			overdue.Reset(within)
		}
	}
}

// next returns the channels to subscribe to and to unsubscribe from, and for how long to wait for the
// result of the test that is due; 0: none is. end is set when the connection is to be closed.
func (l *link) next(c *conn) (add, drop []string, within time.Duration, end bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != c {
		return nil, nil, 0, true
	}
	for _, channel := range l.altered {
		switch t := l.topics[channel]; {
		case t == nil:
		case len(t.subs) == 0:
			if t.requested {
				drop = append(drop, channel)
			}
			delete(l.topics, channel)
		case !t.requested:
			t.requested = true
			add = append(add, channel)
		}
	}
	l.altered = nil
	if _, own := l.topics[l.own]; l.closed || len(l.topics) == 0 || own && len(l.topics) == 1 {
		l.conn, l.own, l.topics = nil, "", map[string]*topic{}
		return nil, nil, 0, true
	}
	within, c.within = c.within, 0
	return add, drop, within, false
}

func (l *link) read(ctx context.Context, c *conn) {
	backoff := retryFirst
	for ctx.Err() == nil {
		m, err := c.ps.Receive(ctx)
		if err == nil {
			backoff = retryFirst
			l.received(c, m)
			continue
		}
		if ctx.Err() != nil || errors.Is(err, redis.ErrClosed) {
			return
		}
		l.failed(c, err)
		lease.Sleep(ctx, backoff)
		backoff = min(2*backoff, retryMax)
	}
}

// received passes a message or a confirmation to the subscriptions to its channel, without holding mu.
func (l *link) received(c *conn, m any) {
	s, channel := Signal{Kind: Message, Node: l.node}, ""
	switch m := m.(type) {
	case *redis.Message:
		channel, s.Payload = m.Channel, m.Payload
	case *redis.Subscription:
		if m.Kind != "subscribe" {
			return
		}
		channel, s.Kind = m.Channel, Subscribed
	case *redis.Pong:
		l.mu.Lock()
		defer l.mu.Unlock()
		c.awaited = false
		return
	}
	l.mu.Lock()
	t := l.topics[channel]
	if t == nil || l.conn != c {
		l.mu.Unlock()
		return
	}
	if s.Kind == Subscribed {
		t.confirmed, c.untestable, l.backoff = true, false, 0
	}
	all := slices.Clone(t.subs)
	l.mu.Unlock()
	for _, sub := range all {
		sub.Receive(s)
	}
}

// failed notifies all subscriptions that they may miss messages; if the node refuses the link's own channel,
// only that. What the node refuses is requested again later: go-redis does that for a new connection only.
func (l *link) failed(c *conn, err error) {
	var refusal redis.Error
	refused, lost := errors.As(err, &refusal), map[string][]*Subscription{}
	l.mu.Lock()
	c.awaited = c.awaited && !refused                                          // the connection carries an answer
	if refused && rediserr.Permanent(err) && !rediserr.RefusedSubscribe(err) { // UNSUBSCRIBE or PING
		c.untestable = true
		l.mu.Unlock()
		return
	}
	own := l.topics[l.own]
	testing := refused && own != nil && own.requested && !own.confirmed
	for channel, t := range l.topics {
		if !testing || t == own {
			t.confirmed = false
			lost[channel] = slices.Clone(t.subs)
		}
	}
	if refused && !c.refused {
		c.refused = true
		l.backoff = min(max(2*l.backoff, retryFirst), retryRefused)
		time.AfterFunc(l.backoff, func() { l.retry(c) })
	}
	if own != nil && rediserr.RefusedSubscribe(err) { // it must not keep the others from being confirmed
		own.subs = nil
		l.altered = append(l.altered, l.own)
		c.wake()
		if !testing {
			l.own = "" // it was not to blame: the next test makes it again
		}
	}
	l.mu.Unlock()
	for channel, subs := range lost {
		for _, s := range subs {
			s.Receive(Signal{Kind: Failed, Node: l.node, Err: l.nodes.SubscriptionError(l.node, channel, err)})
		}
	}
}

// retry requests all channels again: since the node refused some, a right may have been granted.
func (l *link) retry(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == c {
		c.refused = false
		l.request(c)
	}
}

// close ends the subscription and waits for its goroutines, for a bounded time.
func (l *link) close() {
	l.mu.Lock()
	l.closed = true
	c := l.conn
	l.mu.Unlock()
	if c == nil {
		return
	}
	c.wake()
	go func() { _ = c.ps.Close() }() // unblocks the reader
	select {
	case <-c.done:
	case <-time.After(closeTimeout):
	}
}
