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
// test's clock. Safe for concurrent use; its methods end the test where they
// can't do what they promise, so call them on the test's goroutine.
type Redis struct {
	t      testing.TB
	server *miniredis.Miniredis
	admin  *redis.Client // never cut off

	mu     sync.Mutex
	lines  map[*line]string  // the host of each
	cut    map[string]int    // hosts, and by how many calls of CutOff
	chosen map[string]string // election: the only candidate that may win it
}

// addr is not listened on: all connections are in memory.
const addr = "redis.test:6379"

// Quorum is the Redis as an election sees it, from the named host. Electors on
// different hosts can be cut off apart from each other. It is closed when the
// test ends, after the clean-ups that were registered later.
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

// Client is a client of the Redis on the named host, for the worker's own data
// and for looking at what it wrote. It is closed when the test ends.
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

// CutOff cuts hosts off from the Redis, or all hosts when none is named: what
// they send is lost, what is sent to them is lost, and no error shows it. heal
// ends that (a second call of it does nothing). A leader that is cut off keeps
// leading until its deadline, and its work is cancelled then.
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
	if by < 0 { // what was lost would be missed for ever: such lines are made anew, those of subscriptions too
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

// dial connects a host to the Redis, by a line that CutOff can cut.
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
