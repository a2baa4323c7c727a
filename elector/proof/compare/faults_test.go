package compare

import (
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

// fault is one row of the table. It happens while a candidate leads, at any moment between its renewals.
type fault struct {
	name string
	what string
	fits func(s System) bool
	do   func(c *cell, leader *member)
}

var faults = []fault{
	{"none", "no fault", every, func(*cell, *member) {}},
	{"stop", "SIGTERM to the leader", every, func(_ *cell, l *member) { send(syscall.SIGTERM, l.cmd.Process.Pid) }},
	{"kill", "kill -9 of the process that renews", every, func(_ *cell, l *member) { send(syscall.SIGKILL, l.renewing) }},
	{"machine", "all processes of the leader end at once, as with its machine", every, func(_ *cell, l *member) {
		send(syscall.SIGSTOP, l.processes()...)
		send(syscall.SIGKILL, l.processes()...)
	}},
	{"suspend", "all processes of the leader suspended (SIGSTOP) for 2 leases", every, func(_ *cell, l *member) {
		send(syscall.SIGSTOP, l.processes()...)
		sleep(2)
		send(syscall.SIGCONT, l.processes()...)
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
	{"cut", "the leader cut off for 3 leases; what was sent arrives late", every, func(_ *cell, l *member) { l.hold(true, true) }},
	{"requests", "the leader's requests held for 3 leases", every, func(_ *cell, l *member) { l.hold(true, false) }},
	{"replies", "the replies to the leader held for 3 leases", every, func(_ *cell, l *member) { l.hold(false, true) }},
	{"nat", "the leader's connections forgotten in silence; new ones work", every, func(_ *cell, l *member) { l.each((*pair).forget) }},
	{"reset", "all connections of all candidates reset once", every, func(c *cell, _ *member) {
		for _, m := range c.members {
			m.each((*pair).reset)
		}
	}},
	{"slow", "+100 ms for the leader's requests, 3 leases", every, func(_ *cell, l *member) { l.delay(detour) }},
	{"loss", "a fifth of the leader's requests lost, and sent again by TCP, 3 leases", every, func(_ *cell, l *member) { l.delay(lossy) }},
}

func every(System) bool       { return true }
func three(s System) bool     { return s.Nodes == 3 }
func redisOnly(s System) bool { return s.Name != "etcd" }

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

func (m *member) hold(up, down bool) {
	for _, l := range m.links {
		l.hold(up, down)
		time.AfterFunc(3*lease, func() { l.hold(false, false) })
	}
}

func (m *member) delay(lag func() time.Duration) {
	for _, l := range m.links {
		l.lag.Store(&lag)
		time.AfterFunc(3*lease, func() { l.lag.Store(nil) })
	}
}

func (m *member) each(do func(*pair)) {
	for _, l := range m.links {
		l.all(do)
	}
}

// link is the network between a candidate and a store as TCP shows it: what is held arrives late, what a middlebox
// has forgotten vanishes without an answer, and new connections are accepted.
type link struct {
	store string
	ln    net.Listener
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

func newLink(store string) *link {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	l := &link{store: store, ln: ln}
	go l.accept()
	return l
}

func (l *link) accept() {
	for {
		near, err := l.ln.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", l.store)
		if err != nil {
			abort(near.(*net.TCPConn))
			continue
		}
		p := &pair{sides: [2]*net.TCPConn{near.(*net.TCPConn), far.(*net.TCPConn)}}
		l.pairs.Store(p, nil)
		go l.pump(p, requests)
		go l.pump(p, replies)
	}
}

// pump moves what comes from one side to the other until either ends.
func (l *link) pump(p *pair, direction int) {
	from, to := p.sides[direction], p.sides[1-direction]
	data := make([]byte, 64<<10)
	for ended := false; !ended; {
		n, err := from.Read(data)
		if lag := l.lag.Load(); lag != nil && direction == requests {
			time.Sleep((*lag)())
		}
		for l.held[direction].Load() {
			time.Sleep(time.Millisecond)
		}
		if !p.forgotten.Load() {
			_, _ = to.Write(data[:n]) // if it has ended, its own pump notices
		}
		ended = err != nil
	}
	_ = from.Close()
	_ = to.Close()
	l.pairs.Delete(p)
}

func (l *link) close() {
	_ = l.ln.Close()
	l.hold(false, false)
	l.all((*pair).reset)
}

func (l *link) hold(up, down bool) {
	l.held[requests].Store(up)
	l.held[replies].Store(down)
}

func (l *link) all(do func(*pair)) {
	for p := range l.pairs.Range {
		do(p.(*pair))
	}
}

func (p *pair) forget() { p.forgotten.Store(true) }

func (p *pair) reset() {
	abort(p.sides[requests])
	abort(p.sides[replies])
}

// abort ends a connection with an RST.
func abort(conn *net.TCPConn) {
	_ = conn.SetLinger(0)
	_ = conn.Close()
}

func detour() time.Duration { return 100 * time.Millisecond }

// lossy loses a fifth of all packets, which TCP sends again after 0.2 s, 0.4 s, ...
func lossy() (late time.Duration) {
	for again := 200 * time.Millisecond; rand.IntN(5) == 0; again *= 2 {
		late += again
	}
	return late
}
