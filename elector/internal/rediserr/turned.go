package rediserr

import (
	"bytes"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// turnedAway is a connection to a server that may close it with one error line before it has read
// anything: a server in protected mode, or with too many clients. The requests that follow would
// fail with a broken pipe, which explains nothing: they fail with that line instead.
type turnedAway struct {
	*net.TCPConn // embedded so that go-redis can check whether the connection is still open

	heard *atomic.Bool // see Explained

	mu    sync.Mutex // of both below
	begun bool       // something was read
	why   error
}

// Explained wraps a connection, so that the errors of a server that refuses connections show why. It sets
// heard when the server has sent anything.
func Explained(c net.Conn, heard *atomic.Bool) net.Conn {
	switch c := c.(type) {
	case *net.TCPConn:
		return &turnedAway{TCPConn: c, heard: heard}
	case *tls.Conn:
		heard.Store(true) // its handshake
		return &alerted{Conn: c}
	}
	return c
}

// alerted is a TLS 1.3 connection. The server may refuse the client's certificate after the client
// has finished its handshake: it sends an alert and closes the connection, perhaps before the
// client writes a request. That write fails with a broken pipe, but the alert, which has the
// reason, can still be read.
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

// TurnedAway is the error line with which a server closed a connection before any request. Unlike
// after a redis.Error, the connection can't be used again.
type TurnedAway string

func (e TurnedAway) Error() string { return string(e) }

// refusals are the prefixes of the lines with which a server closes a connection before any request.
var refusals = []string{"-DENIED ", "-ERR max number of clients"}

const (
	maxRefusal = 600
	// restOfRefusal is how long to wait for data that is still under way when a write fails.
	restOfRefusal = 50 * time.Millisecond
)

// note checks whether the first bytes that were read are a refusal.
func (c *turnedAway) note(b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.begun || len(b) == 0 {
		return
	}
	c.begun = true
	c.heard.Store(true)
	for _, begin := range refusals {
		if bytes.HasPrefix(b, []byte(begin)) {
			line, _, _ := strings.Cut(string(b[1:]), "\r\n")
			short, _, _ := strings.Cut(line, " because ") // drops a screenful about the server's settings
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
	if !begun { // the server's line may have come before this write
		_ = c.SetReadDeadline(time.Now().Add(restOfRefusal))
		rest := make([]byte, maxRefusal)
		k, _ := c.TCPConn.Read(rest)
		c.note(rest[:k])
	}
	return n, c.explain(err)
}

// explain returns the server's line, if there is one, in place of the error that it caused.
func (c *turnedAway) explain(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.why != nil {
		return c.why
	}
	return err
}
