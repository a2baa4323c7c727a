package simtest

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"syscall"

	"github.com/mandate-dev/mandate/elector/internal/testredis"
)

// link is the way between one host and one node, with its faults. Connections come and go; the faults stay until
// they are healed.
type link struct {
	testredis.Fault

	host *host
	node *node
}

// client names the host's lines.
func (h *host) client() string { return fmt.Sprint("host-", h.id) }

// dial connects a process to a node, or fails at once.
func (l *link) dial(ctx context.Context, p *proc) (net.Conn, error) {
	if p.dead.Load() {
		return nil, &net.OpError{Op: "dial", Net: "sim", Err: syscall.ECONNREFUSED}
	}
	c, err := l.node.Dial(ctx, l.host.client())
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, proc: p}, nil
}

// change changes faults, and puts in force what they, hung nodes and paused processes make of each link.
func (s *Sim) change(f func()) {
	s.netMu.Lock()
	defer s.netMu.Unlock()
	f()
	for _, h := range s.hosts {
		p := h.proc.Load()
		for _, l := range h.links {
			now := l.Fault
			if l.node.hung || p != nil && p.paused.Load() != nil {
				now.Up, now.Down = testredis.Hold, testredis.Hold
			}
			now.Refuse = now.Refuse || !l.node.up
			l.node.Set(now, h.client())
		}
	}
}

// reset cuts the connections of links: what is under way is lost.
func reset(links []*link) {
	for _, l := range links {
		l.node.Reset(l.host.client())
	}
}

// conn is a connection from a process to a node, as the process sees it. Writing never blocks, as with a socket's
// buffer: go-redis writes with a mutex held, and a goroutine that waits for a mutex stops the virtual clock. So does
// the first answer, which belongs to making the connection: it passes also while the process is paused.
type conn struct {
	net.Conn

	proc     *proc
	partial  []byte
	commands atomic.Int64
}

// Read gives the process what has arrived, once it is not paused.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.commands.Load() > 1 {
		c.proc.gate()
	}
	return n, err
}

// Write sends whole commands, and notifies the checker, who may change them.
func (c *conn) Write(b []byte) (int, error) {
	c.partial = append(c.partial, b...)
	for {
		cmd, rest, ok := nextCommand(c.partial)
		if !ok {
			return len(b), nil
		}
		c.partial = slices.Clone(rest)
		c.commands.Add(1)
		c.proc.sim.onCommand(c.proc, cmd)
		if _, err := c.Conn.Write(cmd.raw); err != nil {
			return 0, err
		}
	}
}
