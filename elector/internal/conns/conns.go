// Package conns makes and keeps the connections to one Redis server, outside of the
// time of the requests that use them.
//
// go-redis dials and greets (HELLO, AUTH) in the time of the first request, and throws
// both away when that is over: where a request may take 200 ms, and a round trip takes
// 100, no request is ever answered. Here a request waits for a connection that is made
// in the background, at its own pace; the one that can't wait any longer leaves, and the
// next one finds the connection ready.
//
// Each connection is a client of go-redis that may dial once. So go-redis goes on
// judging whether a connection is still good, at every use; where it would dial again
// the request is known not to have been sent, and takes another connection.
package conns

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// One connection more than requests overlap is kept ready: for the next that
	// overlap, and for the request after one whose answer never came.
	spare = 1
	// keepFor is how long the connections of a busy hour are kept.
	keepFor = 5 * time.Minute
	// again is after what time a request that waits has one more connection made, beside
	// the one that is being made: a lost packet costs TCP a second.
	again = 250 * time.Millisecond
	// pendingMost bounds the connections that are being made without a request for each.
	pendingMost = 4
	// poolSize is that of each connection's own client: more than it ever dials. go-redis
	// probes a server in the background when so many dials have failed.
	poolSize = 4
	// closePatience is how long Close waits for connections that are being made.
	closePatience = 100 * time.Millisecond
)

// Pool is the connections to one server. Its goroutines make one connection each; Close
// ends them. Safe for concurrent use.
type Pool struct {
	opt   redis.Options
	moves bool            // the dialer asks where the server is (Sentinel)
	most  int             // connections at a time
	ctx   context.Context //nolint:containedctx // the pool's life: connections are made in it, not in that of a request
	end   context.CancelFunc
	work  sync.WaitGroup // the connections that are being made

	mu      sync.Mutex // guards what follows; never held while anything waits
	idle    []*conn    // the first has rested for longest, and is used next
	waiting []chan result
	pending int       // being made
	began   time.Time // when the newest of them was
	used    int       // in use
	peak    int       // the most that were in use since the last trim
	all     map[*conn]bool
	begun   uint64      // connections so far
	at      target      // where the newest of those that could be made leads to
	timer   *time.Timer // of trim
	closed  bool
}

type conn struct {
	client *redis.Client
	made   atomic.Bool // it may not dial again
	via    sender      // what to send through: client, but for the first request
	used   bool        // there was a first request
	to     target      // guarded by the pool's mu
	first  chan error  // takes how the first request ended; nil when that is over
}

// sender is what a *redis.Client and a *redis.Conn have in common.
type sender interface {
	Process(ctx context.Context, cmd redis.Cmder) error
	Pipeline() redis.Pipeliner
}

type result struct {
	c   *conn
	err error
}

// errMade is why a connection is not made a second time. Nothing was sent.
var errMade = errors.New("conns: the connection was lost")

// New prepares connections with the options of a client. moves says that its dialer asks
// each time where the server is, as Sentinel's does. It does no I/O.
func New(o *redis.Options, moves bool) *Pool {
	p := &Pool{opt: *o, moves: moves, most: max(o.PoolSize, 1+spare), all: map[*conn]bool{}}
	p.ctx, p.end = context.WithCancel(context.Background())
	p.opt.MinIdleConns = 0
	p.opt.PoolSize, p.opt.MaxActiveConns = poolSize, 0
	// The options of a client say 0 for "none", which is the default of 3 to the next one. A
	// request that is sent twice finds its own effect; and errMade would not tell that it was sent.
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
	timer := time.NewTimer(closePatience) // a dialer may not obey
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
	if p.pending < len(p.waiting) || p.pending < pendingMost && time.Since(p.began) >= again {
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

// lend must be called with mu held.
func (p *Pool) lend() {
	p.used++
	p.peak = max(p.peak, p.used)
}

// next is who has waited for longest. With mu held.
func (p *Pool) next() chan result {
	if len(p.waiting) == 0 {
		return nil
	}
	w := p.waiting[0]
	p.waiting = p.waiting[1:]
	return w
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

// giveUp ends a connection that nobody uses, and no other for it. It is called with mu
// held, and releases it.
func (p *Pool) giveUp(c *conn) {
	delete(p.all, c)
	if len(p.waiting) > p.pending {
		p.connect()
	}
	p.mu.Unlock()
	_ = c.client.Close()
}

// offer hands a connection to who waits, or keeps it. With mu held.
func (p *Pool) offer(c *conn) {
	if p.closed {
		return // Close ends it
	}
	if w := p.next(); w != nil {
		p.lend()
		w <- result{c: c}
		return
	}
	p.idle = append(p.idle, c)
	if p.timer == nil {
		p.timer = time.AfterFunc(keepFor, p.trim)
	}
}

// drop ends a connection in use.
func (p *Pool) drop(c *conn, err error) {
	p.mu.Lock()
	p.used--
	p.replace(c, err)
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

// trim ends what has not been needed lately.
func (p *Pool) trim() {
	p.mu.Lock()
	keep := 0
	if p.peak > 0 {
		keep = p.peak + spare
	}
	p.peak = p.used
	n := min(max(len(p.all)-keep, 0), len(p.idle))
	gone := append([]*conn(nil), p.idle[:n]...)
	p.idle = append(p.idle[:0], p.idle[n:]...)
	for _, c := range gone {
		delete(p.all, c)
	}
	p.timer = nil
	if len(p.all) > 0 && !p.closed {
		p.timer = time.AfterFunc(keepFor, p.trim)
	}
	p.mu.Unlock()
	for _, c := range gone {
		_ = c.client.Close()
	}
}
