// Package conns makes and keeps the connections to one Redis server, outside of the
// time of the requests that use them.
//
// go-redis dials and greets (HELLO, AUTH) in the time of the first request, and throws
// both away when that is over: where a request may take 200 ms, and a round trip takes
// 100, no request is ever answered. Here a request waits for a connection that is made
// in the background, at its own pace; the one that can't wait any longer leaves, and the
// next one finds the connection ready.
//
// Each connection is a client of go-redis that may dial once. So go-redis continues
// judging whether a connection is still good, at every use; where it would dial again
// the request is known not to have been sent, and takes another connection.
package conns

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// New prepares connections with the options of a client. moves says that its dialer queries
// each time where the server is, as Sentinel's does. It does no I/O.
func New(o *redis.Options, moves bool) *Pool {
	p := &Pool{opt: *o, moves: moves, most: max(o.PoolSize, 1+spare), all: map[*conn]bool{}}
	p.ctx, p.end = context.WithCancel(context.Background())
	p.opt.MinIdleConns = 0
	p.opt.PoolSize, p.opt.MaxActiveConns = poolSize, 0
	// The options of a client say 0 for "none", which is the default of 3 to the next one. A
	// request that is sent twice finds its own effect; and errMade would hide that it was sent.
	p.opt.MaxRetries, p.opt.DialerRetries = -1, 1
	p.opt.PipelinePoolSize = -1 // pipelines take the one connection too
	return p
}

// Close ends all connections, those in use too.
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
	timer := time.NewTimer(closeWithin) // a dialer may not obey
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// take waits for a connection. It reports whether it had to.
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

// leave is the end of a wait. What was handed over meanwhile goes back.
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
		p.pending++ // it is not ready yet
		p.mu.Unlock()
		if !broken(err) {
			err = nil
		}
		first <- err
		return
	}
	if err != nil && !errors.Is(err, redis.Nil) && c.client.PoolStats().IdleConns == 0 { // go-redis gave it up
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

// drop ends a connection in use.
func (p *Pool) drop(c *conn, err error) {
	p.mu.Lock()
	p.used--
	p.replace(c, err)
}
