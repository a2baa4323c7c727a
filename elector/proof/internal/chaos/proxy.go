//go:build linux

package chaos

import (
	"net"
	"sync"
	"time"
)

// Weather is what a proxy does to what passes.
type Weather struct {
	Cut      bool          // connections are closed, and new ones refused
	HoleUp   bool          // what the candidate sends disappears
	HoleDown bool          // what the server sends disappears: done, and not confirmed
	Delay    time.Duration // each way
}

// Proxy stands between one candidate and one server.
type Proxy struct {
	listener net.Listener
	target   string
	wg       sync.WaitGroup

	mu      sync.Mutex
	weather Weather
	conns   map[net.Conn]bool
	closed  bool
}

// NewProxy listens on a free port of the loopback interface.
func NewProxy(target string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it ends by Close
	if err != nil {
		return nil, err
	}
	p := &Proxy{listener: l, target: target, conns: map[net.Conn]bool{}}
	p.wg.Go(p.accept)
	return p, nil
}

// Addr is where the candidate dials.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Set changes the weather. Connections that lost bytes are closed when a hole
// closes: what is missing in the middle can't be made good.
func (p *Proxy) Set(w Weather) {
	p.mu.Lock()
	defer p.mu.Unlock()
	lost := (p.weather.HoleUp || p.weather.HoleDown) && !w.HoleUp && !w.HoleDown
	p.weather = w
	if w.Cut || lost {
		p.drop()
	}
}

// drop closes all connections; with mu held.
func (p *Proxy) drop() {
	for c := range p.conns {
		_ = c.Close()
		delete(p.conns, c)
	}
}

// Close ends everything and waits for it.
func (p *Proxy) Close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.closed = true
	p.drop()
	p.mu.Unlock()
	p.wg.Wait()
}

func (p *Proxy) now() Weather {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.weather
}

func (p *Proxy) accept() {
	for {
		near, err := p.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.DialTimeout("tcp", p.target, time.Second) //nolint:noctx // bounded
		if err != nil || !p.keep(near, far) {
			_ = near.Close()
			if err == nil {
				_ = far.Close()
			}
			continue
		}
		p.wg.Go(func() { p.carry(near, far, func(w Weather) bool { return w.HoleUp }) })
		p.wg.Go(func() { p.carry(far, near, func(w Weather) bool { return w.HoleDown }) })
	}
}

// keep remembers a pair of connections, unless it is not welcome.
func (p *Proxy) keep(near, far net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.weather.Cut {
		return false
	}
	p.conns[near], p.conns[far] = true, true
	return true
}

// parcel is what was read at once, and when it may arrive.
type parcel struct {
	bytes []byte
	due   time.Time
}

// carry takes what one side sends to the other, in order.
func (p *Proxy) carry(from, to net.Conn, hole func(Weather) bool) {
	way := make(chan parcel, 1024)
	p.wg.Go(func() {
		for pc := range way {
			time.Sleep(time.Until(pc.due))
			if !hole(p.now()) {
				_, _ = to.Write(pc.bytes) // an error: the reader sees the end too
			}
		}
		p.forget(from, to)
	})
	defer close(way)
	for {
		buf := make([]byte, 16<<10)
		n, err := from.Read(buf)
		if n > 0 {
			way <- parcel{buf[:n], time.Now().Add(p.now().Delay)}
		}
		if err != nil {
			return
		}
	}
}

func (p *Proxy) forget(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
		delete(p.conns, c)
	}
}
