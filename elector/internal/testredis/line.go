package testredis

import (
	"bytes"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Mode is what happens to data on a line.
type Mode int

// The modes.
const (
	Pass Mode = iota
	Hold      // the data is held back until the fault ends
	Drop
)

// Fault is a fault of a line. The zero value is no fault.
type Fault struct {
	Up, Down     Mode          // of requests, of answers
	Refuse       bool          // new connections are refused
	LoseMessages bool          // published messages are dropped
	Unreachable  bool          // new connections fail because the host is unreachable
	Delay        time.Duration // in each direction
	Late         time.Duration // of answers, beyond Delay
	Far          bool          // dialling and greeting are delayed, too, except for subscriptions
	Handshakes   int           // further round trips that dialling takes, as with TLS
}

// The faults of most tests.
var (
	Frozen = Fault{Up: Hold, Down: Hold} // a server that accepts and never answers
	Cut    = Fault{Up: Drop, Down: Drop, Unreachable: true}
	Down   = Fault{Refuse: true}
)

// pipe is one connection, with a queue in each direction, so that no goroutine ever blocks in
// a write: a node that writes to a frozen client must not block.
type pipe struct {
	client     string
	fault      func() (Fault, <-chan struct{}) // the fault of the client's lines, until the channel is closed
	near       net.Conn                        // the client's side
	server     net.Conn                        // the node's side
	subscribed atomic.Bool
	greeted    atomic.Bool // the first request after HELLO and the like was sent
	far        bool        // dialling and greeting are delayed
	jitter     func() time.Duration
	wire       time.Duration
	swallowed  atomic.Bool // whatever is sent is lost
	dead       chan struct{}
	once       sync.Once
}

// run carries data in both directions, until both have ended.
func (p *pipe) run() {
	var both sync.WaitGroup
	both.Go(func() { p.flow(p.near, p.server, true) })
	both.Go(func() { p.flow(p.server, p.near, false) })
	both.Wait()
	p.close()
}

func (p *pipe) close() {
	p.once.Do(func() {
		close(p.dead)
		p.near.Close()
		p.server.Close()
	})
}

// greets reports whether a request is one of those that go-redis sends to make a connection.
func greets(request []byte) bool {
	request = bytes.ToLower(request)
	return slices.ContainsFunc([]string{"$5\r\nhello", "$4\r\nauth", "$6\r\nselect", "$6\r\nclient"}, func(cmd string) bool {
		return bytes.Contains(request, []byte(cmd))
	})
}

// subscribing reports whether go-redis' PubSub is among its callers.
func subscribing() bool {
	pcs := make([]uintptr, 32)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs)])
	for more := true; more; {
		var f runtime.Frame
		if f, more = frames.Next(); strings.Contains(f.Function, "PubSubPool") {
			return true
		}
	}
	return false
}

// Wire is the least delay in each direction, unless Node.Wire says otherwise.
const Wire = 100 * time.Microsecond

type chunk struct {
	data []byte
	at   time.Time
}

// flow carries data in one direction. Data that was sent before the sender closed its side still
// arrives, even after a delay: a slow server would execute it, too.
func (p *pipe) flow(from, to net.Conn, up bool) {
	var mu sync.Mutex
	var queue []chunk
	ended := false
	more := sync.NewCond(&mu)
	go func() {
		buf := make([]byte, 32<<10)
		for err := error(nil); err == nil; {
			var k int
			k, err = from.Read(buf)
			if up && bytes.Contains(buf[:k], []byte("$9\r\nsubscribe")) {
				p.subscribed.Store(true)
			}
			mu.Lock()
			if k > 0 {
				queue = append(queue, chunk{bytes.Clone(buf[:k]), time.Now().Add(p.jitter())})
			}
			ended = err != nil
			more.Signal()
			mu.Unlock()
		}
	}()
	defer to.Close()
	for {
		mu.Lock()
		for len(queue) == 0 && !ended {
			more.Wait()
		}
		if len(queue) == 0 {
			mu.Unlock()
			return
		}
		c := queue[0]
		queue = queue[1:]
		mu.Unlock()
		if up && !greets(c.data) {
			p.greeted.Store(true)
		}
		if !p.swallowed.Load() && (!p.far && !p.greeted.Load() || p.admit(c, up)) {
			_, _ = to.Write(c.data)
		}
	}
}

// admit blocks for as long as the line's fault requires, and reports whether to deliver the data.
func (p *pipe) admit(c chunk, up bool) bool {
	for {
		f, changed := p.fault()
		m := f.Down
		if up {
			m = f.Up
		} else if f.LoseMessages && p.subscribed.Load() {
			m = Drop
		}
		switch m {
		case Drop:
			return false
		case Hold:
			select {
			case <-changed:
			case <-p.dead:
				return false
			}
			continue
		}
		wait := max(f.Delay, p.wire) - time.Since(c.at)
		if !up {
			wait += f.Late
		}
		if wait <= 0 {
			return true
		}
		select {
		case <-time.After(wait):
			return true
		case <-changed:
		case <-p.dead:
			return false
		}
	}
}
