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
			return nil, errMade
		}
		ctx, cancel := context.WithCancel(ctx) // go-redis' own knows nothing of Close
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

// finish makes the connection. Its bounds are those of the options: for the dialling, and
// for each answer on the way.
func (p *Pool) finish(c *conn) {
	err := c.client.Do(p.ctx, "hello").Err() // go-redis makes a connection for a request only; this one needs no right
	c.made.Store(true)
	if c.client.PoolStats().IdleConns > 0 { // also where the server answered with an error: it answered
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

// first hands a connection that has just been greeted to a request that waits, before
// anything else is sent through it: that saves the request a round trip.
func (p *Pool) first(c *conn, cn *redis.Conn) error {
	p.mu.Lock()
	if len(p.waiting) == 0 || p.closed || p.elsewhere(c) { // that is seen to when it has been made
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

// failed is the end of a connection that can't be used. Those who wait get the reason why there
// is none for them, unless another one may be.
func (p *Pool) failed(c *conn, err error) {
	p.mu.Lock()
	p.pending--
	if c.used { // it could be made, and was lost
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

// replace ends a connection, and has another one made at once: the next request must not
// have to wait for it. It is called with mu held, and releases it.
func (p *Pool) replace(c *conn, err error) {
	gone := []*conn{c}
	if !late(err) { // by a server that has gone, most likely: then the others have gone too
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

// giveUp ends a connection that is not used, and no other for it. It is called with mu
// held, and releases it.
func (p *Pool) giveUp(c *conn) {
	delete(p.all, c)
	if len(p.waiting) > p.pending {
		p.connect()
	}
	p.mu.Unlock()
	_ = c.client.Close()
}
