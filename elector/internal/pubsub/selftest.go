package pubsub

import (
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// A connection that is in order may lead to a server whose name has moved to another one since, or into a
// firewall that has forgotten it: then no error ever shows that messages are missed. So a link subscribes to
// a channel of its own, publishes there as everybody publishes, and makes a new subscription if the message does
// not arrive.

var errDeaf = errors.New("the subscription did not receive what was published")

// check requests a test, unless one was requested within every.
func (l *link) check(every, within time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.conn
	if c == nil || l.closed || c.refused || time.Since(c.tested) < every {
		return
	}
	c.tested, c.within = time.Now(), within
	if l.own == "" {
		l.subscribeToItself()
	}
	// A moment later: beside a claim that has just been sent it would take another connection.
	time.AfterFunc(within/8, c.wake)
}

// subscribeToItself subscribes to a channel of the link's own, among those of an election that it
// subscribes to, so that the same rights cover it. The caller holds mu.
func (l *link) subscribeToItself() {
	for channel := range l.topics {
		l.own = protocol.Echo(channel, rand.Text())
		l.altered = append(l.altered, l.own)
		l.topics[l.own] = &topic{subs: []*Subscription{NewSubscription(0, 0, l.ownSignal)}}
		return
	}
}

// ownSignal handles what arrives on the link's own channel. Its confirmation counts, too.
func (l *link) ownSignal(s Signal) (keep bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.conn
	switch {
	case c == nil:
	case s.Kind == Message:
		c.pass(s.Payload)
	case s.Kind == Subscribed:
		c.received = c.sent
	case rediserr.RefusedSubscribe(s.Err): // go-redis would request it again together with all others
		l.topics[l.own].subs = nil
		l.altered = append(l.altered, l.own)
		c.wake()
	}
	return false
}

// pass notes that a test has come back. The caller holds mu.
func (c *conn) pass(number string) {
	if n, err := strconv.Atoi(number); err == nil && n <= c.sent {
		c.received = max(c.received, n)
	}
}

// test has the link send something to itself, and returns after what time to judge whether it has arrived.
func (l *link) test(ctx context.Context, c *conn, within time.Duration) time.Duration {
	l.mu.Lock()
	c.sent++
	number, own, t := strconv.Itoa(c.sent), l.own, l.topics[l.own]
	subscribed, confirmed := t != nil, t != nil && t.confirmed
	l.mu.Unlock()
	switch {
	case subscribed && !confirmed: // the confirmation will do
		return within
	case subscribed:
		receivers, err := l.nodes.PublishTo(ctx, l.node, own, []byte(number), within)
		switch {
		case err == nil && receivers == 0: // another server has answered than the one that is subscribed to
			return 0
		case err == nil:
			return within
		case !rediserr.Denied(err): // no answer shows nothing of the subscription
			l.mu.Lock()
			defer l.mu.Unlock()
			c.received = c.sent
			return within
		}
	}
	// A user who may not publish learns at least whether the connection carries anything.
	_ = c.ps.Ping(ctx, number)
	return within
}

// judge makes a new subscription if the newest test has not come back.
func (l *link) judge(c *conn) {
	l.mu.Lock()
	deaf := l.conn == c && !c.refused && c.received < c.sent
	l.mu.Unlock()
	if deaf {
		l.failed(c, errDeaf)
		l.replace(c)
	}
}
