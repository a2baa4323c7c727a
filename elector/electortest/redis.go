// Package electortest helps to test programs that embed an elector: what does the
// worker do when it becomes leader, when it loses its lease, when its probe fails,
// when it is cut off from Redis?
//
//	func TestPollerStops(t *testing.T) {
//		electortest.Test(t, func(t *testing.T, r *electortest.Redis) {
//			e, err := elector.New(r.Quorum("a"), elector.Config{Election: "orders"})
//			...
//			go e.Run(ctx, poller.Work)
//			r.Lead(e)                        // e leads, whatever other candidates do
//			electortest.Advance(time.Minute) // a minute of work, in no real time
//			r.TakeLease(e)                   // another candidate has the lease
//			// now check that the poller has stopped
//		})
//	}
//
// [NewTerm] returns a term for a test of a work function alone.
//
// [Test] runs on virtual time: an hour passes in a moment, and the same test
// takes the same steps on any machine. [Start] starts the same Redis on the real
// clock, for code that can't run in a testing/synctest bubble (because it listens on
// a socket, or starts processes).
//
// The Redis is an embedded one (miniredis) behind connections in memory. It runs
// the elector's scripts, expires keys by the test's clock, and serves the
// worker's own data too. It has no ACL, no Cluster, and not every command.
//
// Import it in _test.go files only: a program that imports it links the embedded
// Redis and the testing package.
package electortest

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/module"
	"github.com/mandate-dev/mandate/elector/internal/testredis"
)

// Redis is an embedded Redis server, empty at first, whose keys expire by the
// test's clock. Safe for concurrent use; but call its methods on the test's goroutine,
// because they end the test when they fail.
type Redis struct {
	t     testing.TB
	set   *testredis.Set
	node  *testredis.Node // its only one; nothing listens: all connections are in memory
	admin *redis.Client   // never cut off

	mu     sync.Mutex
	cut    map[string]int    // by host: how many calls of CutOff have not been healed
	chosen map[string]string // by election: the only candidate that may win it; "": any may
}

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

func (r *Redis) client(host string) *redis.Client { return r.set.Client(host, 0, configure) }

func configure(o *redis.Options) {
	o.DisableIdentity, o.MaxRetries, o.DialerRetries, o.ContextTimeoutEnabled = true, -1, 1, true
	o.MaintNotificationsConfig = &maintnotifications.Config{
		Mode: maintnotifications.ModeDisabled, EndpointType: maintnotifications.EndpointTypeNone, // no DNS look-up
	}
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
	defer r.mu.Unlock()
	for _, h := range hosts {
		r.cut[h] += by
	}
	lost := testredis.Fault{Up: testredis.Drop, Down: testredis.Drop}
	if r.cut[everyHost] > 0 {
		r.node.Set(lost)
	} else {
		r.node.Heal()
		for h, n := range r.cut {
			if n > 0 {
				r.node.Set(lost, h)
			}
		}
	}
	if by < 0 { // what was lost never arrives, also on the connections of subscriptions
		for _, h := range hosts {
			r.node.Reset(h)
		}
	}
}

// Start starts a Redis on the real clock, which stops when the test ends. For virtual
// time use [Test].
func Start(t testing.TB) *Redis {
	set := testredis.New(0)
	set.Nodes = append(set.Nodes, set.NewNode("redis.test:6379"))
	r := &Redis{t: t, set: set, node: set.Nodes[0], cut: map[string]int{}, chosen: map[string]string{}}
	r.node.On(r.keepOut)
	r.admin = set.Client("", 0, configure, func(o *redis.Options) {
		o.Dialer = func(context.Context, string, string) (net.Conn, error) { return r.node.Server().Dial() }
	})
	t.Cleanup(func() {
		_ = r.admin.Close()
		set.Close()
	})
	return r
}

// Test runs f in a testing/synctest bubble, with a Redis in it. Time is virtual,
// and advances when every goroutine of the test is blocked.
//
// The rules of bubbles apply to f: it must end all goroutines that it starts (above
// all, cancel the contexts of Run; t.Cleanup is early enough), it must open no socket, and
// nothing in it may wait for something outside. With -race the whole process runs on one
// processor meanwhile, because with two the race detector sometimes crashes in a bubble
// (go.dev/issue/78156); a test that calls synctest.Test itself has to do the same.
// f must not call t.Parallel or t.Run.
func Test(t *testing.T, f func(t *testing.T, r *Redis)) {
	t.Helper()
	defer testredis.OneProcessor()()
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { // runs after all other clean-ups
			// The goroutines that an elector leaves in the background end within about
			// a lease. A bubble must not end before they do.
			time.Sleep(leftoverTime)
			synctest.Wait()
		})
		f(t, Start(t))
	})
}

// leftoverTime is more virtual time than any background goroutine takes to end.
const leftoverTime = time.Hour

// Advance lets d of virtual time pass, and returns when all goroutines of the bubble are blocked
// again. Call it only within [Test]: it panics elsewhere.
func Advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// Probe is a health.Probe whose result the test sets, for Config.Probe or
// Config.WorkProbe. The zero value passes. Safe for concurrent use.
//
// An elector reacts to it as to any probe: after the failures, intervals and
// time-outs of its health.Settings.
type Probe struct {
	mu   sync.Mutex
	err  error
	hung bool
}

// Pass makes every run from now on succeed.
func (p *Probe) Pass() { p.set(nil, false) }

// Fail makes every run from now on fail with err.
func (p *Probe) Fail(err error) { p.set(err, false) }

// Hang makes every run from now on last until its time-out.
func (p *Probe) Hang() { p.set(nil, true) }

func (p *Probe) set(err error, hung bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err, p.hung = err, hung
}

// Check implements health.Probe.
func (p *Probe) Check(ctx context.Context) error {
	p.mu.Lock()
	err, hung := p.err, p.hung
	p.mu.Unlock()
	if hung {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return err
}

// NewTerm returns a term with that token, for a test that calls a work function itself, with
// no election and no Redis. The term is valid until end is called with the reason that the work
// is to see, until Resign or Close is called, or until the test ends. Its deadline is a day away.
//
//	term, end := electortest.NewTerm(t, 7)
//	go end(elector.ReasonLost)
//	err := work(term.Context(), term)
func NewTerm(t testing.TB, token uint64) (term *elector.Term, end func(elector.Reason)) {
	t.Helper()
	term, end = new(elector.Term).Ungranted(module.Only{}, token)
	t.Cleanup(func() { end(elector.ReasonShutdown) })
	return term, end
}
