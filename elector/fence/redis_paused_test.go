package fence_test

import (
	"context"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/testfence"
)

// pausing is a connection whose leader is stopped in the middle of a request.
type pausing struct {
	net.Conn
	gate *gate
}

type gate struct {
	at      string // stop in the middle of the request that holds this
	stopped chan struct{}
	resume  chan struct{}
}

func (p *pausing) Write(b []byte) (int, error) {
	if !strings.Contains(strings.ToLower(string(b)), p.gate.at) {
		return p.Conn.Write(b)
	}
	n, err := p.Conn.Write(b[:len(b)/2])
	if err != nil {
		return n, err
	}
	close(p.gate.stopped)
	<-p.gate.resume
	m, err := p.Conn.Write(b[n:])
	return n + m, err
}

// pauseAt is a leader's client that stops when half of a request is sent.
func pauseAt(t *testing.T, addr, at string) (*redis.Client, *gate) {
	g := &gate{at: at, stopped: make(chan struct{}), resume: make(chan struct{})}
	c := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, WriteTimeout: -1,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			return &pausing{conn, g}, err
		}})
	t.Cleanup(func() { c.Close() })
	return c, g
}

func testRedisHalfScript(t *testing.T, addr string) {
	c := client(t, addr)
	next := newRedis(t, c)
	if err := write(next, 5, "first"); err != nil { // the server knows the script
		t.Fatal(err)
	}
	paused, g := pauseAt(t, addr, "evalsha")
	result := make(chan error, 1)
	go func() { result <- write(newRedis(t, paused), 5, "late") }()
	<-g.stopped
	if err := write(next, 7, "second"); err != nil {
		t.Fatalf("the successor: %v", err)
	}
	close(g.resume)
	testfence.WantStale(t, <-result, 5, 7)
	wantList(t, c, "first", "second")
}

// losing makes connections that lose the answer to the next script.
type losing struct {
	addr string
	lose atomic.Bool
}

func (l *losing) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, l.addr)
	return &losingConn{Conn: conn, l: l}, err
}

type losingConn struct {
	net.Conn
	l    *losing
	next bool
}

func (c *losingConn) Write(b []byte) (int, error) {
	c.next = strings.Contains(strings.ToLower(string(b)), "evalsha")
	return c.Conn.Write(b)
}

func (c *losingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err == nil && c.next && c.l.lose.CompareAndSwap(true, false) {
		c.Conn.Close()
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}
