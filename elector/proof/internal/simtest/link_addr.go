package simtest

import (
	"net"
	"time"
)

// SetDeadline and its sisters bound reading; writing never blocks.
func (c *conn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	c.deadline = t
	c.wake()
	return nil
}

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(time.Time) error { return nil }

// LocalAddr implements net.Conn.
func (c *conn) LocalAddr() net.Addr { return simAddr("host") }

// RemoteAddr implements net.Conn.
func (c *conn) RemoteAddr() net.Addr { return simAddr(c.link.node.addr) }

type simAddr string

func (simAddr) Network() string  { return "sim" }
func (a simAddr) String() string { return string(a) }
