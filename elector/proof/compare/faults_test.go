package compare

import (
	"fmt"
	"log"
	"net"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

// fault is one row of the table. It happens while a candidate leads, at any moment between its renewals.
type fault struct {
	Name    string
	What    string // for the page
	fits    func(s System) bool
	do      func(c *cell, leader *member)
	before  func(c *cell, leader *member) // what must have happened; then the cell waits for a leader again
	packets bool                          // it needs a network of its own
}

var faults = []fault{
	{Name: "none", What: "no fault", fits: every, do: func(*cell, *member) {}},
	{Name: "stop", What: "SIGTERM to the leader", fits: every, do: func(_ *cell, l *member) { send(syscall.SIGTERM, l.cmd.Process.Pid) }},
	{Name: "kill", What: "kill -9 of the process that renews", fits: every, do: func(_ *cell, l *member) { send(syscall.SIGKILL, l.renewing) }},
	{
		Name: "machine", What: "the leader's machine dies: its processes end, and nothing closes its connections", fits: every, packets: true,
		do: func(c *cell, l *member) {
			l.drop(c.t, 100, requests, replies)
			send(syscall.SIGSTOP, processes(l.dir)...)
			send(syscall.SIGKILL, processes(l.dir)...)
		},
	},
	{Name: "suspend", What: "all processes of the leader suspended (SIGSTOP) for 2 leases", fits: every, do: func(_ *cell, l *member) {
		send(syscall.SIGSTOP, processes(l.dir)...)
		sleep(2)
		send(syscall.SIGCONT, processes(l.dir)...)
	}},
	{Name: "between", What: "the process that works suspended for 1.5 leases, after its check and before its write", fits: every, do: func(_ *cell, l *member) {
		send(syscall.SIGHUP, l.working)
		sleep(1.5)
		send(syscall.SIGCONT, l.working)
	}},
	{Name: "hang", What: "the work hangs, and heeds its context", fits: every, do: func(_ *cell, l *member) { send(syscall.SIGUSR1, l.working) }},
	{Name: "deaf", What: "the work hangs, and heeds nothing", fits: every, do: func(_ *cell, l *member) { send(syscall.SIGUSR2, l.working) }},
	{Name: "freeze", What: "a store frozen for 2 leases", fits: every, do: func(c *cell, _ *member) { c.freeze(2, c.servers[:1]) }},
	{Name: "freeze-all", What: "all three stores frozen for 2 leases", fits: three, do: func(c *cell, _ *member) { c.freeze(2, c.servers) }},
	{Name: "empty", What: "a store killed, restarted empty", fits: every, do: func(c *cell, _ *member) { c.restart(true, c.servers[:1]) }},
	{Name: "empty-all", What: "all three stores killed, restarted empty", fits: three, do: func(c *cell, _ *member) { c.restart(true, c.servers) }},
	{Name: "restart", What: "a store killed, restarted with its data", fits: every, do: func(c *cell, _ *member) { c.restart(false, c.servers[:1]) }},
	{Name: "dump", What: "a store killed, restarted with its data of the term before", fits: every, before: (*cell).keepData, do: func(c *cell, _ *member) {
		s := c.servers[0]
		s.Kill()
		check(exec.Command("sh", "-c", "rm -rf $1 && mv $1.old $1", "", dataOf(s)).Run())
		s.Restart(c.t)
	}},
	{Name: "flush", What: "FLUSHALL of every store", fits: redisOnly, do: func(c *cell, _ *member) {
		for _, s := range c.servers {
			s.(*servertest.Server).Do(c.t, "FLUSHALL")
		}
	}},
	{Name: "moved", What: "the address of a store moves to a new, empty one, and a candidate joins; the old store ends 2 leases later", fits: every, do: func(c *cell, _ *member) {
		c.places[0].Store(new(c.system.Store(c.t).Addr()))
		c.start()
		sleep(2)
		c.servers[0].Kill()
	}},
	{Name: "cut", What: "all packets of the leader dropped for 3 leases", fits: every, packets: true, do: func(c *cell, l *member) { l.drop(c.t, 100, requests, replies) }},
	{Name: "replies", What: "all packets to the leader dropped for 3 leases", fits: every, packets: true, do: func(c *cell, l *member) { l.drop(c.t, 100, replies) }},
	{Name: "loss", What: "20 % of the leader's packets dropped for 3 leases", fits: every, packets: true, do: func(c *cell, l *member) { l.drop(c.t, 20, requests, replies) }},
	{Name: "loss-40", What: "40 % of the leader's packets dropped for 3 leases", fits: every, packets: true, do: func(c *cell, l *member) { l.drop(c.t, 40, requests, replies) }},
	{Name: "nat", What: "the leader's connections forgotten in silence; new ones work", fits: every, do: func(_ *cell, l *member) { l.all(func(p *pair) { p.forgotten.Store(true) }) }},
	{Name: "reset", What: "all connections of all candidates reset once", fits: every, do: func(c *cell, _ *member) {
		for _, m := range c.members {
			m.all((*pair).reset)
		}
	}},
	{Name: "failover", What: "a planned failover", fits: bySentinel, do: watched(func(c *cell, s *sentinels) { s.Do(c.t, "SENTINEL", "FAILOVER", master) })},
	{Name: "master", What: "the master killed", fits: bySentinel, do: watched(func(_ *cell, s *sentinels) { s.master.Kill() })},
	{Name: "master-back", What: "the master killed, back after 2 leases", fits: bySentinel, do: watched(func(c *cell, s *sentinels) {
		s.master.Kill()
		sleep(2)
		s.master.Restart(c.t)
	})},
	{Name: "master-frozen", What: "the master frozen for 3 leases", fits: bySentinel, do: watched(func(c *cell, s *sentinels) { c.freeze(3, []server{s.master}) })},
}

func every(s System) bool      { return !s.Sentinel }
func three(s System) bool      { return every(s) && s.Nodes == 3 }
func bySentinel(s System) bool { return s.Sentinel || s.Name == always || s.Name == kernel }
func redisOnly(s System) bool {
	return every(s) && s.Name != "etcd" && s.Name != "client-go" && s.Name != "postgres"
}

// watched does something to servers that Sentinel watches, and nothing in a control, which has none.
func watched(do func(*cell, *sentinels)) func(*cell, *member) {
	return func(c *cell, _ *member) {
		if s, ok := c.servers[0].(*sentinels); ok {
			do(c, s)
		}
	}
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

// keepData copies the data of a store, and ends the term. The lock in that copy has expired when the cell goes on.
func (c *cell) keepData(l *member) {
	s := c.servers[0]
	s.Kill()
	check(exec.Command("cp", "-a", dataOf(s), dataOf(s)+".old").Run())
	s.Restart(c.t)
	sleep(1)
	send(syscall.SIGTERM, l.cmd.Process.Pid)
}

// network is what a candidate has to its stores. Packets get lost in the kernel. What a middlebox has forgotten vanishes
// without an answer, and new connections are accepted.
type network struct {
	ports []string // at which the candidate reaches its stores; no other one uses them
	pairs sync.Map // of *pair
}

// The packets that a candidate sends and receives, as nft names the end that is ours.
const (
	requests = "dport"
	replies  = "sport"
)

// pair is a connection of a candidate and the one to the store that belongs to it.
type pair struct {
	near, far *net.TCPConn
	forgotten atomic.Bool
}

// listen returns the address at which the candidate reaches the store at a place.
func (n *network) listen(t testing.TB, place *atomic.Pointer[string]) (addr string) {
	ln := must(net.Listen("tcp", "127.0.0.1:0"))
	t.Cleanup(func() {
		_ = ln.Close()
		n.all((*pair).reset)
	})
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	n.ports = append(n.ports, port)
	go n.accept(ln, place)
	return ln.Addr().String()
}

func (n *network) accept(ln net.Listener, place *atomic.Pointer[string]) {
	for {
		near, err := ln.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", *place.Load())
		if err != nil {
			abort(near.(*net.TCPConn))
			continue
		}
		p := &pair{near: near.(*net.TCPConn), far: far.(*net.TCPConn)}
		n.pairs.Store(p, nil)
		go n.pump(p, p.near, p.far)
		go n.pump(p, p.far, p.near)
	}
}

// pump moves what comes from one side to the other until either ends.
func (n *network) pump(p *pair, from, to *net.TCPConn) {
	data := make([]byte, 64<<10)
	for ended := false; !ended; {
		size, err := from.Read(data)
		if !p.forgotten.Load() {
			_, _ = to.Write(data[:size]) // if it has ended, its own pump notices
		}
		ended = err != nil
	}
	_ = from.Close()
	_ = to.Close()
	n.pairs.Delete(p)
}

// drop loses some percent of the candidate's packets in these directions for 3 leases.
func (n *network) drop(t testing.TB, percent int, directions ...string) {
	chain := "compare c" + n.ports[0]
	rules := "add table compare; add chain " + chain + " { type filter hook input priority 0; };"
	for _, port := range n.ports {
		for _, d := range directions {
			rules += fmt.Sprintf("add rule %s tcp %s %s numgen random mod 100 <= %d drop;", chain, d, port, percent-1)
		}
	}
	nft(rules)
	heal := sync.OnceFunc(func() { nft("flush chain " + chain + "; delete chain " + chain) })
	time.AfterFunc(3*lease, heal)
	t.Cleanup(heal)
}

func nft(commands string) {
	if out, err := exec.Command("nft", commands).CombinedOutput(); err != nil {
		log.Fatalf("nft %s: %v: %s", commands, err, out)
	}
}

func (n *network) all(do func(*pair)) {
	for p := range n.pairs.Range {
		do(p.(*pair))
	}
}

func (p *pair) reset() {
	abort(p.near)
	abort(p.far)
}

// abort ends a connection with an RST.
func abort(conn *net.TCPConn) {
	_ = conn.SetLinger(0)
	_ = conn.Close()
}
