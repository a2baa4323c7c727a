package quorum

import (
	"context"
	"errors"
	"net"
	"sync"
	"syscall"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

type dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// explaining makes the errors of a server that refuses connections show why.
func (n *Node) explaining(dial dialer) dialer {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		switch {
		case errors.Is(err, redis.Nil): // must not look like the answer that a key does not exist
			return nil, errors.New("the sentinels know no master named so")
		case err != nil:
			return nil, err
		}
		return rediserr.Explained(c, &n.heard), nil
	}
}

// leaving closes the connections to a former master as soon as the sentinels name another one. A
// master that hung while another one was promoted, and that runs again, grants and loses locks on its
// own until it learns that it is a replica. (go-redis does this only for its own failover clients.)
type leaving struct {
	dial dialer

	mu    sync.Mutex // guards what follows
	begun uint64     // connections begun so far
	at    uint64     // the newest one that was made
	addr  string     // where that one leads to
	open  map[*toMaster]bool
}

var errFormerMaster = errors.New("quorum: the connection leads to a former master")

// toMaster is a connection to the master that the sentinels named.
type toMaster struct {
	net.Conn

	of *leaving
}

func (c *toMaster) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// toCheck is a toMaster of which go-redis can see that the server has closed it.
type toCheck struct {
	*toMaster
	syscall.Conn
}

func (l *leaving) connect(ctx context.Context, network, addr string) (net.Conn, error) {
	l.mu.Lock()
	l.begun++
	number := l.begun
	l.mu.Unlock()
	raw, err := l.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c := &toMaster{Conn: raw, of: l}
	former, ok := l.arrive(c, number)
	for _, f := range former {
		_ = f.Close()
	}
	if !ok {
		return nil, errors.Join(errFormerMaster, raw.Close())
	}
	if check, ok := raw.(syscall.Conn); ok {
		return toCheck{c, check}, nil
	}
	return c, nil
}

// arrive adds a connection, and returns those that lead to a former master. ok is false if this one
// does: it was begun before one that leads elsewhere.
func (l *leaving) arrive(c *toMaster, number uint64) (former []*toMaster, ok bool) {
	to := c.RemoteAddr().String()
	l.mu.Lock()
	defer l.mu.Unlock()
	if number < l.at && to != l.addr {
		return nil, false
	}
	if to != l.addr {
		for f := range l.open {
			former = append(former, f)
		}
		l.addr, l.open = to, map[*toMaster]bool{}
	}
	l.at = max(l.at, number)
	l.open[c] = true
	return former, true
}
