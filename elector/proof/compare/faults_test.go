package compare

import (
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

// fault is one row of the table. It happens while a candidate leads, at any moment between its renewals.
type fault struct {
	Name string
	What string // for the page
	fits func(s System) bool
	do   func(c *cell, leader *member)
}

var faults = []fault{
	{"none", "no fault", every, func(*cell, *member) {}},
	{"stop", "SIGTERM to the leader", every, func(_ *cell, l *member) { send(syscall.SIGTERM, l.cmd.Process.Pid) }},
	{"kill", "kill -9 of the process that renews", every, func(_ *cell, l *member) { send(syscall.SIGKILL, l.renewing) }},
	{"machine", "the leader's machine dies: its processes end, and nothing closes its connections", every, func(_ *cell, l *member) {
		l.cut(true, true)
		send(syscall.SIGSTOP, processes(l.dir)...)
		send(syscall.SIGKILL, processes(l.dir)...)
	}},
	{"suspend", "all processes of the leader suspended (SIGSTOP) for 2 leases", every, func(_ *cell, l *member) {
		send(syscall.SIGSTOP, processes(l.dir)...)
		sleep(2)
		send(syscall.SIGCONT, processes(l.dir)...)
	}},
	{"hang", "the work hangs, and heeds its context", every, func(_ *cell, l *member) { send(syscall.SIGUSR1, l.working) }},
	{"deaf", "the work hangs, and heeds nothing", every, func(_ *cell, l *member) { send(syscall.SIGUSR2, l.working) }},
	{"freeze-short", "a store frozen for L/2", every, func(c *cell, _ *member) { c.freeze(0.5, c.servers[:1]) }},
	{"freeze", "a store frozen for 2 leases", every, func(c *cell, _ *member) { c.freeze(2, c.servers[:1]) }},
	{"freeze-all", "all three stores frozen for 2 leases", three, func(c *cell, _ *member) { c.freeze(2, c.servers) }},
	{"empty", "a store killed, restarted empty", every, func(c *cell, _ *member) { c.restart(true, c.servers[:1]) }},
	{"empty-all", "all three stores killed, restarted empty", three, func(c *cell, _ *member) { c.restart(true, c.servers) }},
	{"restart", "a store killed, restarted with its data", every, func(c *cell, _ *member) { c.restart(false, c.servers[:1]) }},
	{"flush", "FLUSHALL of every store", redisOnly, func(c *cell, _ *member) {
		for _, s := range c.servers {
			s.(*servertest.Server).Do(c.t, "FLUSHALL")
		}
	}},
	{"cut", "the leader cut off for 3 leases; what was sent arrives late", every, func(_ *cell, l *member) { l.cut(true, true) }},
	{"requests", "the leader's requests held for 3 leases", every, func(_ *cell, l *member) { l.cut(true, false) }},
	{"replies", "the replies to the leader held for 3 leases", every, func(_ *cell, l *member) { l.cut(false, true) }},
	{"nat", "the leader's connections forgotten in silence; new ones work", every, func(_ *cell, l *member) { l.all(func(p *pair) { p.forgotten.Store(true) }) }},
	{"reset", "all connections of all candidates reset once", every, func(c *cell, _ *member) {
		for _, m := range c.members {
			m.all((*pair).reset)
		}
	}},
	{"slow", "+100 ms for the leader's requests, 3 leases", every, func(_ *cell, l *member) { l.delay(func() time.Duration { return 100 * time.Millisecond }) }},
	{"loss", "a fifth of the leader's requests lost, and sent again by TCP, 3 leases", every, func(_ *cell, l *member) { l.delay(lossy) }},
}

func every(System) bool   { return true }
func three(s System) bool { return s.Nodes == 3 }
func redisOnly(s System) bool {
	return s.Name != "etcd" && s.Name != "client-go" && s.Name != "postgres"
}

func sleep(leases float64) { time.Sleep(time.Duration(leases * float64(lease))) }

func (c *cell) freeze(leases float64, servers []server) {
	for _, s := range servers {
		s.Hang(c.t)
	}
	sleep(leases)
	for _, s := range servers {
		s.Wake(c.t)
	}
}

func (c *cell) restart(empty bool, servers []server) {
	for _, s := range servers {
		s.Kill()
		if empty {
			s.Forget(c.t)
		}
	}
	for _, s := range servers {
		s.Restart(c.t)
	}
}

// network is what a candidate has to its stores, as TCP shows it: what is held arrives late, what a middlebox has
// forgotten vanishes without an answer, and new connections are accepted.
type network struct {
	held  [2]atomic.Bool // by direction
	lag   atomic.Pointer[func() time.Duration]
	pairs sync.Map // of *pair
}

const (
	requests = iota
	replies
)

// pair is a connection of a candidate and the one to the store that belongs to it.
type pair struct {
	sides     [2]*net.TCPConn
	forgotten atomic.Bool
}

// listen returns the address at which the candidate reaches a store.
func (n *network) listen(t testing.TB, store string) (addr string) {
	ln := must(net.Listen("tcp", "127.0.0.1:0"))
	t.Cleanup(func() {
		_ = ln.Close()
		n.hold(false, false)
		n.all((*pair).reset)
	})
	go n.accept(ln, store)
	return ln.Addr().String()
}

func (n *network) accept(ln net.Listener, store string) {
	for {
		near, err := ln.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", store)
		if err != nil {
			abort(near.(*net.TCPConn))
			continue
		}
		p := &pair{sides: [2]*net.TCPConn{near.(*net.TCPConn), far.(*net.TCPConn)}}
		n.pairs.Store(p, nil)
		go n.pump(p, requests)
		go n.pump(p, replies)
	}
}

// pump moves what comes from one side to the other until either ends.
func (n *network) pump(p *pair, direction int) {
	from, to := p.sides[direction], p.sides[1-direction]
	data := make([]byte, 64<<10)
	for ended := false; !ended; {
		size, err := from.Read(data)
		if lag := n.lag.Load(); lag != nil && direction == requests {
			time.Sleep((*lag)())
		}
		for n.held[direction].Load() {
			time.Sleep(time.Millisecond)
		}
		if !p.forgotten.Load() {
			_, _ = to.Write(data[:size]) // if it has ended, its own pump notices
		}
		ended = err != nil
	}
	_ = from.Close()
	_ = to.Close()
	n.pairs.Delete(p)
}

// cut holds what goes up or down for 3 leases.
func (n *network) cut(up, down bool) {
	n.hold(up, down)
	time.AfterFunc(3*lease, func() { n.hold(false, false) })
}

func (n *network) hold(up, down bool) {
	n.held[requests].Store(up)
	n.held[replies].Store(down)
}

func (n *network) delay(lag func() time.Duration) {
	n.lag.Store(&lag)
	time.AfterFunc(3*lease, func() { n.lag.Store(nil) })
}

func (n *network) all(do func(*pair)) {
	for p := range n.pairs.Range {
		do(p.(*pair))
	}
}

func (p *pair) reset() {
	abort(p.sides[requests])
	abort(p.sides[replies])
}

// abort ends a connection with an RST.
func abort(conn *net.TCPConn) {
	_ = conn.SetLinger(0)
	_ = conn.Close()
}

// lossy loses a fifth of all packets, which TCP sends again after 0.2 s, 0.4 s, ...
func lossy() (late time.Duration) {
	for again := 200 * time.Millisecond; rand.IntN(5) == 0; again *= 2 {
		late += again
	}
	return late
}
