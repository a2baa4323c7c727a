package main

import (
	"context"
	"errors"
	"net"
	"sync"
)

// gate is a candidate's network cable.
type gate struct {
	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]struct{}
}

var errCut = errors.New("the network is cut")

func (g *gate) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	g.mu.Lock()
	cut := g.cut
	g.mu.Unlock()
	if cut {
		return nil, errCut
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.cut {
		_ = conn.Close()
		return nil, errCut
	}
	g.conns[conn] = struct{}{}
	return conn, nil
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cut = true
	for c := range g.conns {
		_ = c.Close()
	}
	clear(g.conns)
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cut = false
}
