package rediserr

import (
	"crypto/tls"
	"net"
	"regexp"
	"sync/atomic"
)

// TurnedAway is the error line with which a server closed a connection before any request. Unlike
// after a redis.Error, the connection can't be used again.
type TurnedAway string

func (e TurnedAway) Error() string { return string(e) }

// turnedAway is a connection to a server that may close it with one error line, whatever is requested: a server in
// protected mode, or with too many clients. go-redis takes that line for an answer to its HELLO, and what it
// sends next fails with a broken pipe, which explains nothing: it fails with that line instead.
type turnedAway struct {
	*net.TCPConn // embedded so that go-redis can check whether the connection is still open

	heard *atomic.Bool // see Explained
	begun atomic.Bool  // something was read
	why   atomic.Pointer[TurnedAway]
}

// Explained wraps a connection, so that the errors of a server that refuses connections show why. It sets
// heard when the server has sent anything.
func Explained(c net.Conn, heard *atomic.Bool) net.Conn {
	switch c := c.(type) {
	case *net.TCPConn:
		return &turnedAway{TCPConn: c, heard: heard}
	case *tls.Conn:
		heard.Store(true) // its handshake
	}
	return c
}

func (c *turnedAway) Read(b []byte) (int, error) {
	n, err := c.TCPConn.Read(b)
	if n > 0 && c.begun.CompareAndSwap(false, true) {
		c.heard.Store(true)
		if line := turnsAway.FindSubmatch(b[:n]); line != nil {
			c.why.Store(new(TurnedAway(line[1])))
		}
	}
	return n, c.explain(err)
}

func (c *turnedAway) Write(b []byte) (int, error) {
	n, err := c.TCPConn.Write(b)
	return n, c.explain(err)
}

// turnsAway matches such a line, up to a screenful about the server's settings.
var turnsAway = regexp.MustCompile(`(?s)^-((?:DENIED |ERR max number of clients).*?)(?: because |\r\n|$)`)

// explain returns the server's line, if there is one, in place of the error that it caused.
func (c *turnedAway) explain(err error) error {
	if why := c.why.Load(); err != nil && why != nil {
		return *why
	}
	return err
}
