package electortest

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/mandate-dev/mandate/elector"
)

// Redis is an embedded Redis server, empty at first, whose keys expire by the
// test's clock. Safe for concurrent use; but call its methods on the test's goroutine,
// because they end the test when they fail.
type Redis struct {
	t      testing.TB
	server *miniredis.Miniredis
	admin  *redis.Client // never cut off

	mu     sync.Mutex
	lines  map[*line]string  // by line: its host
	cut    map[string]int    // by host: how many calls of CutOff have not been healed
	chosen map[string]string // by election: the only candidate that may win it
}

// addr is the server's address. Nothing listens on it: all connections are in memory.
const addr = "redis.test:6379"

// Quorum returns a Quorum on this Redis, used from the named host. Electors on
// different hosts can be cut off separately. The Quorum is closed when the test ends,
// after the clean-ups that were registered later.
func (r *Redis) Quorum(host string) *elector.Quorum {
	r.t.Helper()
	c := r.client(host)
	q, err := elector.NewQuorum(c)
	_ = c.Close() // only its options are needed
	if err != nil {
		r.t.Fatalf("electortest: %v", err)
	}
	r.t.Cleanup(func() { _ = q.Close() })
	return q
}

// Client returns a client of the Redis on the named host, for the worker's own data, and
// for checking what the worker wrote. It is closed when the test ends.
func (r *Redis) Client(host string) *redis.Client {
	c := r.client(host)
	r.t.Cleanup(func() { _ = c.Close() })
	return c
}

func (r *Redis) client(host string) *redis.Client {
	return newClient(func() (net.Conn, error) { return r.dial(host) })
}

func newClient(dial func() (net.Conn, error)) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: addr, DisableIdentity: true, MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true,
		Dialer: func(context.Context, string, string) (net.Conn, error) { return dial() },
		MaintNotificationsConfig: &maintnotifications.Config{
			Mode: maintnotifications.ModeDisabled, EndpointType: maintnotifications.EndpointTypeNone, // no DNS look-up
		},
	})
}

// CutOff cuts hosts off from the Redis, or all hosts if none is named: what they send, and
// what is sent to them, is lost without an error. heal ends this; a second call of heal
// does nothing. A leader that is cut off remains leader until its deadline, when its work
// is cancelled.
func (r *Redis) CutOff(hosts ...string) (heal func()) {
	if len(hosts) == 0 {
		hosts = []string{everyHost}
	}
	hosts = slices.Clone(hosts)
	r.setCut(hosts, 1)
	return sync.OnceFunc(func() { r.setCut(hosts, -1) })
}

const everyHost = ""

func (r *Redis) setCut(hosts []string, by int) {
	r.mu.Lock()
	var broken []*line
	for _, h := range hosts {
		r.cut[h] += by
	}
	if by < 0 { // close the lines that lost something, also those of subscriptions: what was lost never arrives
		for l, host := range r.lines {
			if l.lost.Load() && (slices.Contains(hosts, host) || slices.Contains(hosts, everyHost)) {
				broken = append(broken, l)
			}
		}
	}
	r.mu.Unlock()
	for _, l := range broken {
		_ = l.Close()
	}
}

func (r *Redis) isCut(host string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cut[host] > 0 || r.cut[everyHost] > 0
}

// dial connects a host to the Redis through a line that CutOff can cut.
func (r *Redis) dial(host string) (net.Conn, error) {
	conn, err := r.server.Dial()
	if err != nil {
		return nil, err
	}
	l := newLine(conn, func() bool { return r.isCut(host) }, func(l *line) {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.lines, l)
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines[l] = host
	return l, nil
}

// Start starts a Redis on the real clock, which stops when the test ends. For virtual
// time use [Test].
func Start(t testing.TB) *Redis {
	r := &Redis{
		t: t, server: miniredis.NewMiniRedis(),
		lines: map[*line]string{}, cut: map[string]int{}, chosen: map[string]string{},
	}
	r.server.ClockTTL(true)
	conn, err := r.server.Dial() // starts it, without a socket
	if err != nil {
		t.Fatalf("electortest: starting the embedded Redis: %v", err)
	}
	_ = conn.Close()
	r.server.Server().SetPreHook(r.keepOut)
	r.admin = newClient(r.server.Dial)
	t.Cleanup(func() {
		_ = r.admin.Close()
		r.server.Close()
	})
	return r
}
