// Package conns makes and keeps the connections to one Redis server, independently of the
// time-outs of the requests that use them.
//
// go-redis dials and greets (HELLO, AUTH) within the time-out of the first request, and drops
// the connection when that time-out passes: with a time-out of 200 ms and a round trip of
// 100 ms, no request is ever answered. Here a request waits for a connection that is made in
// the background, with a time-out of its own. A request that times out first gives up, and the
// next request finds the connection ready.
//
// Each connection is a client of go-redis that may dial only once. So go-redis still checks at
// every use whether the connection is usable. Where it would dial again, the request was
// certainly not sent, and takes another connection.
package conns

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// New returns a Pool that connects with the options of a client. moves tells it that the dialer
// looks up at each call where the server is, as Sentinel's does. New does no I/O.
func New(o *redis.Options, moves bool) *Pool {
	p := &Pool{opt: *o, moves: moves, most: max(o.PoolSize, 1+spare), all: map[*conn]bool{}}
	p.ctx, p.end = context.WithCancel(context.Background())
	p.opt.MinIdleConns = 0
	p.opt.PoolSize, p.opt.MaxActiveConns = poolSize, 0
	// In the options of an existing client 0 means "no retries", but to a new client it means the
	// default of 3. A request that is sent twice meets its own effect, and errNoRedial on the second
	// try would hide that the first was sent.
	p.opt.MaxRetries, p.opt.DialerRetries = -1, 1
	p.opt.PipelinePoolSize = -1 // pipelines use the client's only connection, too
	return p
}

// Close closes all connections, including those in use.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	p.end()
	if p.timer != nil {
		p.timer.Stop()
	}
	waiting, all := p.waiting, p.all
	p.waiting, p.idle, p.all = nil, nil, map[*conn]bool{}
	p.mu.Unlock()
	for _, w := range waiting {
		w <- result{err: redis.ErrClosed}
	}
	for c := range all {
		_ = c.client.Close()
	}
	done := make(chan struct{})
	go func() { p.work.Wait(); close(done) }()
	timer := time.NewTimer(closeWithin) // a dialer may ignore its context
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// take blocks until there is a connection, or until ctx ends. waited reports whether it had to wait.
func (p *Pool) take(ctx context.Context) (c *conn, waited bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, false, redis.ErrClosed
	}
	if len(p.idle) > 0 {
		c = p.idle[0]
		p.idle = append(p.idle[:0], p.idle[1:]...)
		p.lend()
		if len(p.idle) < spare && p.pending == 0 {
			p.connect()
		}
		p.mu.Unlock()
		return c, false, nil
	}
	w := make(chan result, 1)
	p.waiting = append(p.waiting, w)
	if p.pending < len(p.waiting) || p.pending < maxPending && time.Since(p.began) >= again {
		p.connect()
	}
	p.mu.Unlock()
	select {
	case r := <-w:
		return r.c, true, r.err
	case <-ctx.Done():
		p.leave(w)
		return nil, true, ctx.Err()
	}
}

// leave ends a wait. A connection that was handed over meanwhile goes back to the pool.
func (p *Pool) leave(w chan result) {
	p.mu.Lock()
	for i, other := range p.waiting {
		if other == w {
			p.waiting = append(p.waiting[:i], p.waiting[i+1:]...)
			p.mu.Unlock()
			return
		}
	}
	p.mu.Unlock()
	if r := <-w; r.c != nil {
		p.release(r.c, nil)
	}
}

// release takes a connection back after a request that ended with err.
func (p *Pool) release(c *conn, err error) {
	if first := c.first; first != nil {
		p.mu.Lock()
		c.via, c.first = c.client, nil
		p.used--
		p.pending++ // finish has still to complete it
		p.mu.Unlock()
		if !broken(err) {
			err = nil
		}
		first <- err
		return
	}
	if err != nil && !errors.Is(err, redis.Nil) && c.client.PoolStats().IdleConns == 0 { // go-redis has closed it
		p.drop(c, err)
		return
	}
	p.mu.Lock()
	p.used--
	if p.elsewhere(c) {
		p.giveUp(c)
		return
	}
	p.offer(c)
	p.mu.Unlock()
}

// drop closes a connection in use.
func (p *Pool) drop(c *conn, err error) {
	p.mu.Lock()
	p.used--
	p.replace(c, err)
}
