package demo

import (
	"context"
	"errors"
	"net"
	"sync"
)

// link is a candidate's network connection, which a step can cut.
type link struct {
	mu    sync.Mutex // guards down and conns
	down  bool
	conns map[net.Conn]struct{}
}

var errCut = errors.New("the network is cut")

func (l *link) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	l.mu.Lock()
	down := l.down
	l.mu.Unlock()
	if down {
		return nil, errCut
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down {
		_ = conn.Close()
		return nil, errCut
	}
	l.conns[conn] = struct{}{}
	return conn, nil
}

func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = true
	for c := range l.conns {
		_ = c.Close()
	}
	clear(l.conns)
}

func (l *link) restore() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = false
}
