package conns

import (
	"bytes"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"time"
)

// turnedAway is a connection to a server that may end it with one line of error before it
// has read anything: one in protected mode, or with too many clients. The requests that
// follow then fail with a broken pipe, which explains nothing: they get that line instead.
type turnedAway struct {
	*net.TCPConn // go-redis looks through it whether the connection is still there

	mu    sync.Mutex
	begun bool // something was read
	why   error
}

// explained watches for a server that refuses the connection itself.
func explained(c net.Conn) net.Conn {
	switch c := c.(type) {
	case *net.TCPConn:
		return &turnedAway{TCPConn: c}
	case *tls.Conn:
		return &alerted{Conn: c}
	}
	return c
}

// alerted is a connection with TLS 1.3 to a server that may refuse the client's
// certificate when the client has long finished its handshake: its alert may have come
// with the end of the connection, before a request is written. The write fails with a
// broken pipe; the alert, which says why, is still there to be read.
type alerted struct{ *tls.Conn }

func (c *alerted) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	_ = c.SetReadDeadline(time.Now().Add(restOfRefusal))
	_, why := c.Read(make([]byte, 1))
	if alert := new(net.OpError); errors.As(why, &alert) && alert.Op == "remote error" {
		return n, why
	}
	return n, err
}

// TurnedAway is the line with which a server ended a connection, unasked. Unlike a redis.Error
// it leaves no connection to be used again.
type TurnedAway string

func (e TurnedAway) Error() string { return string(e) }

// refusals begin the lines with which a server ends a connection unasked.
var refusals = []string{"-DENIED ", "-ERR max number of clients"}

const (
	maxRefusal = 600
	// restOfRefusal is for what is still on its way when a write fails.
	restOfRefusal = 50 * time.Millisecond
)

// note looks at what was read first.
func (c *turnedAway) note(b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.begun || len(b) == 0 {
		return
	}
	c.begun = true
	for _, begin := range refusals {
		if bytes.HasPrefix(b, []byte(begin)) {
			line, _, _ := strings.Cut(string(b[1:]), "\r\n")
			short, _, _ := strings.Cut(line, " because ") // what goes on for a screen about the server's settings
			c.why = TurnedAway(short)
		}
	}
}

func (c *turnedAway) Read(b []byte) (int, error) {
	n, err := c.TCPConn.Read(b)
	c.note(b[:n])
	if n == 0 && err != nil {
		err = c.explain(err)
	}
	return n, err
}

func (c *turnedAway) Write(b []byte) (int, error) {
	n, err := c.TCPConn.Write(b)
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	c.mu.Lock()
	begun := c.begun
	c.mu.Unlock()
	if !begun { // its line came before ours left
		_ = c.SetReadDeadline(time.Now().Add(restOfRefusal))
		rest := make([]byte, maxRefusal)
		k, _ := c.TCPConn.Read(rest)
		c.note(rest[:k])
	}
	return n, c.explain(err)
}

// explain is the server's line in place of what followed from it.
func (c *turnedAway) explain(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.why != nil {
		return c.why
	}
	return err
}
