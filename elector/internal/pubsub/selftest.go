package pubsub

import (
	"context"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// A connection that is in order may lead to a server whose name has moved to another one since, or into a
// firewall that has forgotten it: then no error ever shows that messages are missed. So a link subscribes to
// a channel of its own, publishes there as everybody publishes, and makes a new subscription if the message does
// not arrive, or if the server that answers has passed it on to nobody: the old server may be its replica, which repeats it.

// check requests a test, unless something of this process has arrived within every, and nothing casts doubt on that.
// own is the channel for it.
func (l *link) check(own string, every, within time.Duration, doubted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.conn
	if c == nil || l.closed || c.refused || c.untestable || !doubted && time.Since(c.tested) < every {
		return
	}
	c.tested, c.within = time.Now(), within
	if l.own == "" {
		l.own = own
		l.altered = append(l.altered, own)
		l.topics[own] = &topic{subs: []*Subscription{NewSubscription(0, 0, l.ownSignal)}}
	}
	// A moment later: beside a claim that has just been sent it would take another connection.
	time.AfterFunc(within/8, c.wake)
}

// ownSignal handles what arrives on the link's own channel. Its confirmation counts, too.
func (l *link) ownSignal(s Signal) (keep bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.conn; c != nil && s.Kind != Failed {
		c.awaited, c.tested = false, time.Now()
	}
	return false
}

// test has the link send something to itself, which is to arrive within that time.
func (l *link) test(ctx context.Context, c *conn, within time.Duration) {
	l.mu.Lock()
	c.awaited = true
	own, t := l.own, l.topics[l.own]
	subscribed, confirmed := t != nil, t != nil && t.confirmed
	l.mu.Unlock()
	switch {
	case subscribed && !confirmed: // the confirmation will do
		return
	case subscribed:
		receivers, err := l.nodes.PublishTo(ctx, l.node, own, nil, within)
		if err == nil && receivers == 0 { // another server has answered than the one that is subscribed to
			l.deaf(c)
		}
		if err != nil && !rediserr.Denied(err) { // no answer shows nothing of the subscription
			l.mu.Lock()
			defer l.mu.Unlock()
			c.awaited = false
		}
		if !rediserr.Denied(err) {
			return
		}
	}
	// A user who may not publish learns at least whether the connection carries anything.
	_ = c.ps.Ping(ctx)
}

// judge makes a new subscription if the newest test has not come back.
func (l *link) judge(c *conn) {
	l.mu.Lock()
	deaf := l.conn == c && c.awaited
	l.mu.Unlock()
	if deaf {
		l.deaf(c)
	}
}

// deaf makes a new subscription in place of one that receives nothing.
func (l *link) deaf(c *conn) {
	l.failed(c, context.DeadlineExceeded) // not as one whose connection was lost, with what the node held
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == c && !l.closed {
		l.connect()
		c.wake() // it ends
	}
}
