package conns

import (
	"context"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
)

// connect starts to make a connection, unless there are enough. The caller holds mu.
func (p *Pool) connect() {
	if p.closed || len(p.all) >= p.most {
		return
	}
	c := &conn{}
	o := p.opt
	dial, greeted := o.Dialer, o.OnConnect
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if c.made.Load() {
			return nil, errNoRedial
		}
		ctx, cancel := context.WithCancel(ctx) // Close does not cancel the context of go-redis
		defer cancel()
		defer context.AfterFunc(p.ctx, cancel)()
		raw, err := dial(ctx, network, addr)
		if err == nil && raw.RemoteAddr() != nil {
			p.mu.Lock()
			c.to.addr = raw.RemoteAddr().String()
			p.mu.Unlock()
			raw = explained(raw)
		}
		return raw, err
	}
	o.OnConnect = func(ctx context.Context, cn *redis.Conn) error {
		if greeted != nil {
			if err := greeted(ctx, cn); err != nil {
				return err
			}
		}
		return p.first(c, cn)
	}
	c.client = redis.NewClient(&o)
	c.via = c.client
	p.all[c] = true
	p.begun++
	c.to.seq = p.begun
	p.pending++
	p.began = time.Now()
	p.work.Go(func() { p.finish(c) })
}

// finish makes the connection. The time-outs of the options bound the dialling and each answer.
func (p *Pool) finish(c *conn) {
	err := c.client.Do(p.ctx, "hello").Err() // go-redis connects only for a request; HELLO needs no right
	c.made.Store(true)
	if c.client.PoolStats().IdleConns > 0 { // also if the server answered with an error: the connection works
		p.mu.Lock()
		p.pending--
		if p.closed || p.elsewhere(c) {
			p.giveUp(c)
			return
		}
		gone := p.arrive(c)
		p.offer(c)
		p.mu.Unlock()
		for _, c := range gone {
			_ = c.client.Close()
		}
		return
	}
	p.failed(c, err)
}

// first hands a connection that has just been greeted to a waiting request, before anything else
// is sent on it, which saves the request a round trip. It blocks until the request has ended.
func (p *Pool) first(c *conn, cn *redis.Conn) error {
	p.mu.Lock()
	if len(p.waiting) == 0 || p.closed || p.elsewhere(c) { // finish handles these cases
		p.mu.Unlock()
		return nil
	}
	gone, w := p.arrive(c), p.next()
	ended := make(chan error, 1)
	c.via, c.first, c.used = cn, ended, true
	p.pending--
	p.lend()
	p.mu.Unlock()
	w <- result{c: c}
	for _, c := range gone {
		_ = c.client.Close()
	}
	return <-ended
}

// failed drops a connection that can't be used. If no other connection is in use or being made,
// all waiting requests fail with err.
func (p *Pool) failed(c *conn, err error) {
	p.mu.Lock()
	p.pending--
	if c.used { // the connection was made, and lost
		p.replace(c, err)
		return
	}
	delete(p.all, c)
	if p.pending == 0 && p.used == 0 {
		for w := p.next(); w != nil; w = p.next() {
			w <- result{err: err}
		}
	}
	p.mu.Unlock()
	_ = c.client.Close()
}

// replace closes a connection, and starts to make another one at once, so that the next request
// need not wait for it. It is called with mu held, and releases it.
func (p *Pool) replace(c *conn, err error) {
	gone := []*conn{c}
	if !late(err) { // most likely the server has ended the connection, and with it all others
		gone = append(gone, p.idle...)
		p.idle = nil
	}
	for _, c := range gone {
		delete(p.all, c)
	}
	if len(p.waiting) > p.pending || len(p.idle) == 0 && p.pending == 0 {
		p.connect()
	}
	p.mu.Unlock()
	for _, c := range gone {
		_ = c.client.Close()
	}
}

// giveUp closes a connection that is not in use. Another one is made only if a request waits for
// it. giveUp is called with mu held, and releases it.
func (p *Pool) giveUp(c *conn) {
	delete(p.all, c)
	if len(p.waiting) > p.pending {
		p.connect()
	}
	p.mu.Unlock()
	_ = c.client.Close()
}
