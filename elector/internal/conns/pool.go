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
	// spare is how many more connections are kept than requests overlap: for the next requests
	// that overlap, and for the request after one whose answer never came.
	spare = 1
	// keepFor is how long connections are kept that only a busy period needed.
	keepFor = 5 * time.Minute
	// again is how old a pending connection has to be before a request that waits starts one
	// more beside it: a lost packet costs TCP a second.
	again = 250 * time.Millisecond
	// maxPending bounds the connections that are being made in excess of waiting requests.
	maxPending = 4
	// poolSize is the pool size of each connection's own client: more than it ever dials, because
	// go-redis starts to probe a server in the background when so many dials have failed.
	poolSize = 4
	// closeWithin is how long Close waits for connections that are being made.
	closeWithin = 100 * time.Millisecond
)

// Pool holds the connections to one server. Each of its goroutines makes one connection; Close
// ends them. Safe for concurrent use.
type Pool struct {
	opt   redis.Options
	moves bool            // the dialer looks up where the server is (Sentinel)
	most  int             // connections at a time
	ctx   context.Context //nolint:containedctx // the pool's life: connections are made in it, not in that of a request
	end   context.CancelFunc
	work  sync.WaitGroup // the connections that are being made

	mu      sync.Mutex // guards what follows; never held while anything waits
	idle    []*conn    // the first was idle for longest, and is used next
	waiting []chan result
	pending int       // connections being made
	began   time.Time // when the newest connection was begun
	used    int       // connections in use
	peak    int       // maximum of used since the last trim
	all     map[*conn]bool
	begun   uint64      // connections begun so far
	at      target      // of the newest connection that was made
	timer   *time.Timer // of trim
	closed  bool
}

type conn struct {
	client *redis.Client
	made   atomic.Bool // the client must not dial again
	via    sender      // what to send through: client, except for the first request
	used   bool        // there was a first request
	to     target      // guarded by the pool's mu
	first  chan error  // receives how the first request ended; nil when there is none, or after its end
}

// sender is the part that *redis.Client and *redis.Conn have in common.
type sender interface {
	Process(ctx context.Context, cmd redis.Cmder) error
	Pipeline() redis.Pipeliner
}

type result struct {
	c   *conn
	err error
}

// errNoRedial refuses to make a connection a second time. Nothing was sent.
var errNoRedial = errors.New("conns: the connection was lost")

// lend counts one more connection in use. The caller holds mu.
func (p *Pool) lend() {
	p.used++
	p.peak = max(p.peak, p.used)
}

// next removes and returns the request that has waited for longest; nil: none waits. The caller
// holds mu.
func (p *Pool) next() chan result {
	if len(p.waiting) == 0 {
		return nil
	}
	w := p.waiting[0]
	p.waiting = p.waiting[1:]
	return w
}

// offer hands a connection to a waiting request, or keeps it as idle. The caller holds mu.
func (p *Pool) offer(c *conn) {
	if p.closed {
		return // Close closes it
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

// trim closes the connections that were not needed since the last trim.
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

// target is where a connection leads to.
type target struct {
	addr string
	seq  uint64 // orders the connections as they were begun
}
