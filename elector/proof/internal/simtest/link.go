package simtest

import (
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// network is all links of a simulation, under one lock.
type network struct {
	mu    sync.Mutex
	rng   *rand.Rand
	conns map[*conn]struct{}

	closed atomic.Bool // no node can be dialled any more
}

// link is the way between one host and one node, with its faults. Connections
// come and go; the faults stay until they are healed.
type link struct {
	refuse     bool          // dialling fails at once
	holdReq    bool          // requests don't arrive; they do, late, when it heals
	holdRep    bool          // answers don't arrive: executed, but unconfirmed
	loseRep    bool          // answers are lost
	noMessages bool          // messages to subscribers are lost
	delayReq   time.Duration // at most, beside the usual
	delayRep   time.Duration
	node       *node
	onCommand  func(*proc, command)
}

// conn is one connection from a process to a node. Writing never blocks, as
// with a socket's buffer, and closing does not take back what was written: a
// request may be executed long after its sender gave up. The handshake (the
// first command and its answer) passes whatever the faults, because go-redis
// holds a mutex meanwhile, and a goroutine that waits for a mutex stops the
// virtual clock.
type conn struct {
	net.Conn // to the server

	network *network
	link    *link
	proc    *proc

	// under net.mu
	changed    chan struct{}
	partial    []byte
	requests   []packet
	replies    []packet
	commands   int
	answered   int
	subscriber bool
	closed     bool // by the client
	cut        bool // reset
	eof        bool // the server closed
	deadline   time.Time
}

type packet struct {
	data  []byte
	at    time.Time
	first bool
}

// dial connects a process to a node, or fails at once.
func (n *network) dial(p *proc, l *link) (net.Conn, error) {
	// Before the lock: miniredis publishes with its own lock held, to readers
	// that need ours.
	if n.closed.Load() {
		return nil, net.ErrClosed
	}
	server, err := l.node.redis.Dial()
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if l.refuse || p.dead.Load() || !l.node.up {
		_ = server.Close()
		return nil, &net.OpError{Op: "dial", Net: "sim", Err: syscall.ECONNREFUSED}
	}
	c := &conn{Conn: server, network: n, link: l, proc: p, changed: make(chan struct{})}
	n.conns[c] = struct{}{}
	go c.send()
	go c.receive()
	return c, nil
}

// wake wakes everybody who waits for a change of c. n.mu is held.
func (c *conn) wake() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// change changes faults and wakes everybody.
func (n *network) change(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
	for c := range n.conns {
		c.wake()
	}
}

// reset cuts the connections that match.
func (n *network) reset(match func(*conn) bool) {
	n.change(func() {
		for c := range n.conns {
			if match(c) {
				c.cut = true
				c.requests, c.replies = nil, nil
			}
		}
	})
}

// usual is the time of flight without any fault, one way.
func (n *network) usual(extra time.Duration) time.Duration {
	d := 50*time.Microsecond + time.Duration(n.rng.Int64N(int64(250*time.Microsecond)))
	if extra > 0 {
		d += time.Duration(n.rng.Int64N(int64(extra)))
	}
	return d
}

// await waits for a change of c, or until at. net.mu is held, and given up
// meanwhile.
func (c *conn) await(at time.Time) {
	ch := c.changed
	c.network.mu.Unlock()
	defer c.network.mu.Lock()
	if at.IsZero() {
		<-ch
		return
	}
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-ch:
	case <-timer.C:
	}
}

// send carries requests to the server.
func (c *conn) send() {
	c.network.mu.Lock()
	defer c.network.mu.Unlock()
	defer c.Conn.Close()
	for !c.cut {
		if len(c.requests) == 0 {
			if c.closed {
				return
			}
			c.await(time.Time{})
			continue
		}
		head := c.requests[0]
		if !head.first && (c.link.holdReq || c.link.node.hung || c.proc.paused.Load() != nil) {
			c.await(time.Time{})
			continue
		}
		if !head.first && time.Now().Before(head.at) {
			c.await(head.at)
			continue
		}
		c.requests = c.requests[1:]
		c.network.mu.Unlock()
		_, err := c.Conn.Write(head.data)
		c.network.mu.Lock()
		if err != nil {
			return
		}
	}
}

// receive carries answers back.
func (c *conn) receive() {
	buf := make([]byte, 64<<10)
	for {
		n, err := c.Conn.Read(buf)
		c.network.mu.Lock()
		if err != nil {
			c.eof = true
			c.wake()
			if c.closed || c.cut {
				delete(c.network.conns, c)
			}
			c.network.mu.Unlock()
			return
		}
		first := c.answered == 0
		c.answered++
		if first || !c.link.loseRep && !(c.subscriber && c.link.noMessages) {
			p := packet{data: append([]byte(nil), buf[:n]...), at: time.Now().Add(c.network.usual(c.link.delayRep)), first: first}
			if k := len(c.replies); k > 0 && p.at.Before(c.replies[k-1].at) {
				p.at = c.replies[k-1].at
			}
			c.replies = append(c.replies, p)
			c.wake()
		}
		c.network.mu.Unlock()
	}
}

// Read gives the client what has arrived.
func (c *conn) Read(b []byte) (int, error) {
	c.network.mu.Lock()
	defer c.network.mu.Unlock()
	for {
		if c.answered > 0 && !(len(c.replies) > 0 && c.replies[0].first) {
			c.network.mu.Unlock()
			c.proc.gate()
			c.network.mu.Lock()
		}
		now := time.Now()
		switch {
		case c.closed:
			return 0, net.ErrClosed
		case c.cut:
			return 0, &net.OpError{Op: "read", Net: "sim", Err: syscall.ECONNRESET}
		}
		wake := c.deadline
		if len(c.replies) > 0 {
			head := &c.replies[0]
			if head.first || !c.link.holdRep && !now.Before(head.at) {
				n := copy(b, head.data)
				if head.data = head.data[n:]; len(head.data) == 0 {
					c.replies = c.replies[1:]
				}
				return n, nil
			}
			if !c.link.holdRep && (wake.IsZero() || head.at.Before(wake)) {
				wake = head.at
			}
		} else if c.eof {
			return 0, io.EOF
		}
		if !c.deadline.IsZero() && !now.Before(c.deadline) {
			return 0, os.ErrDeadlineExceeded
		}
		c.await(wake)
	}
}

// Write takes whole commands, and notifies the checker.
func (c *conn) Write(b []byte) (int, error) {
	c.network.mu.Lock()
	defer c.network.mu.Unlock()
	switch {
	case c.closed:
		return 0, net.ErrClosed
	case c.cut || c.eof:
		return 0, &net.OpError{Op: "write", Net: "sim", Err: syscall.ECONNRESET}
	}
	c.partial = append(c.partial, b...)
	for {
		cmd, rest, ok := nextCommand(c.partial)
		if !ok {
			return len(b), nil
		}
		c.partial = append([]byte(nil), rest...)
		c.commands++
		if cmd.is("SUBSCRIBE") {
			c.subscriber = true
		}
		c.network.mu.Unlock()
		c.link.onCommand(c.proc, cmd)
		c.network.mu.Lock()
		p := packet{data: cmd.raw, at: time.Now().Add(c.network.usual(c.link.delayReq)), first: c.commands == 1}
		if k := len(c.requests); k > 0 && p.at.Before(c.requests[k-1].at) {
			p.at = c.requests[k-1].at
		}
		c.requests = append(c.requests, p)
		c.wake()
	}
}

// Close is the client's; what was written is still under way.
func (c *conn) Close() error {
	c.network.mu.Lock()
	defer c.network.mu.Unlock()
	c.closed = true
	if c.eof {
		delete(c.network.conns, c)
	}
	c.wake()
	return nil
}

// SetDeadline and its sisters bound reading; writing never blocks.
func (c *conn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.network.mu.Lock()
	defer c.network.mu.Unlock()
	c.deadline = t
	c.wake()
	return nil
}

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(time.Time) error { return nil }
