package electortest

import (
	"bytes"
	"net"
	"sync"
	"sync/atomic"
)

// line is a connection in memory between a host and the Redis. What the Redis sends is
// queued, so that a host that does not read never blocks the Redis.
type line struct {
	net.Conn // the host's side: it reads here what the Redis sends
	redis    net.Conn
	cut      func() bool // reports whether the host is cut off
	closed   func(*line)
	greeted  atomic.Bool // the first command after HELLO and the like was sent
	lost     atomic.Bool // something that either side sent was dropped

	mu    sync.Mutex
	queue []byte
	ended bool
	more  chan struct{}
}

// newLine connects a host to the Redis; Close calls ended.
func newLine(conn net.Conn, cut func() bool, ended func(*line)) *line {
	near, far := net.Pipe()
	l := &line{Conn: near, redis: conn, cut: cut, closed: ended, more: make(chan struct{}, 1)}
	go l.collect()
	go l.deliver(far)
	return l
}

// Write sends b to the Redis, or drops it while the host is cut off. The commands that make a
// connection always pass: go-redis sends those of a subscription with a mutex held, and a
// bubble's clock stands still while other goroutines wait for that mutex.
func (l *line) Write(b []byte) (int, error) {
	if !l.greeted.Load() && !greets(b) {
		l.greeted.Store(true)
	}
	if l.isCut() {
		l.lost.Store(true)
		return len(b), nil
	}
	return l.redis.Write(b)
}

func (l *line) isCut() bool { return l.greeted.Load() && l.cut() }

// collect queues what the Redis sends, or drops it while the host is cut off.
func (l *line) collect() {
	buf := make([]byte, 32<<10)
	for {
		n, err := l.redis.Read(buf)
		l.mu.Lock()
		l.ended = err != nil
		if l.isCut() {
			l.lost.Store(l.lost.Load() || n > 0)
		} else {
			l.queue = append(l.queue, buf[:n]...)
		}
		l.mu.Unlock()
		select {
		case l.more <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// deliver writes the queue to the host's side, until the Redis has closed the connection.
func (l *line) deliver(to net.Conn) {
	defer to.Close()
	for range l.more {
		l.mu.Lock()
		data, ended := l.queue, l.ended
		l.queue = nil
		l.mu.Unlock()
		if len(data) > 0 {
			if _, err := to.Write(data); err != nil {
				return // closed by the host
			}
		}
		if ended {
			return
		}
	}
}

// Close closes the line.
func (l *line) Close() error {
	l.closed(l)
	_ = l.redis.Close()
	return l.Conn.Close()
}

// greets reports whether a request is one of those that go-redis sends to make a connection.
func greets(request []byte) bool {
	request = bytes.ToLower(request)
	for _, cmd := range []string{"$5\r\nhello", "$4\r\nauth", "$6\r\nselect", "$6\r\nclient"} {
		if bytes.Contains(request, []byte(cmd)) {
			return true
		}
	}
	return false
}
