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
	// maxPending bounds the connections that are being made without a request for each.
	maxPending = 4
	// poolSize is that of each connection's own client: more than it ever dials. go-redis
	// probes a server in the background when so many dials have failed.
	poolSize = 4
	// closeWithin is how long Close waits for connections that are being made.
	closeWithin = 100 * time.Millisecond
)

// Pool is the connections to one server. Its goroutines make one connection each; Close
// ends them. Safe for concurrent use.
type Pool struct {
	opt   redis.Options
	moves bool            // the dialer looks up where the server is (Sentinel)
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

// lend must be called with mu held.
func (p *Pool) lend() {
	p.used++
	p.peak = max(p.peak, p.used)
}

// next is who has waited for longest. The caller holds mu.
func (p *Pool) next() chan result {
	if len(p.waiting) == 0 {
		return nil
	}
	w := p.waiting[0]
	p.waiting = p.waiting[1:]
	return w
}

// offer hands a connection to who waits, or keeps it. The caller holds mu.
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

// target is where a connection leads to, in the order in which they were begun.
type target struct {
	addr string
	seq  uint64
}
