package simtest

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/lease"
)

// host is a place where candidates live, one after another, with its links.
type host struct {
	sim   *Sim
	id    int
	rate  float64 // how much faster its clocks run than true time
	last  time.Time
	links []*link
	boots int
	proc  atomic.Pointer[proc] // the newest life
}

func (s *Sim) newHost(id int, rate float64) *host {
	h := &host{sim: s, id: id, rate: rate, last: time.Now()}
	for _, n := range s.nodes {
		h.links = append(h.links, &link{host: h, node: n})
	}
	return h
}

// boot starts a new life on the host. The name is its own unless given.
func (h *host) boot(name string) {
	s := h.sim
	h.boots++
	if name == "" {
		name = fmt.Sprintf("c%d-%d", h.id, h.boots)
	}
	p := &proc{sim: s, host: h, name: name, born: time.Now(), done: make(chan struct{})}
	p.warp = &lease.Warp{Gate: p.gate}
	if s.o.Mode == WallHints {
		p.warp.Wall.Store(int64(s.share(110*time.Minute) - 55*time.Minute))
	}
	p.probe, p.work = newProbe(p), newProbe(p)
	clients := make([]redis.UniversalClient, 0, len(s.nodes))
	for i, n := range s.nodes {
		l := h.links[i]
		clients = append(clients, redis.NewClient(&redis.Options{
			Addr:   n.Addr,
			Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) { return l.dial(ctx, p) },
		}))
	}
	q, err := elector.NewQuorum(clients...)
	if err != nil {
		panic(err)
	}
	for _, c := range clients {
		_ = c.Close() // NewQuorum uses only their options
	}
	if s.group != nil {
		p.enter(q)
		return
	}
	priority := 0
	if s.succession == elector.SuccessionPriority {
		priority = h.id % 3
	}
	p.e, err = elector.New(q, elector.Config{
		Election: election, ID: name, Advertise: advertised(name), Lease: s.t.lease, StopMargin: s.t.stopMargin,
		Cooldown: s.t.cooldown, Logger: s.history.logger(), Succession: s.succession, Priority: priority,
		Probe: p.probe, ProbeSettings: s.probeSettings(), WorkProbe: p.work, WorkProbeSettings: s.probeSettings(),
	})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(lease.WithClock(context.Background(), lease.ClockOf(p.warp, func(g lease.Held) { p.granted.Store(&g) })))
	p.stop = cancel
	p.observe(context.WithoutCancel(ctx))
	p.start(func() {
		p.live(ctx)
		p.observer.end()
		p.observer.done.Wait()
		_ = q.Close()
	})
}

// drift moves the host's clocks away from true time.
func (h *host) drift() {
	now := time.Now()
	d := int64(float64(now.Sub(h.last)) * h.rate)
	h.last = now
	if p := h.proc.Load(); p != nil && p.paused.Load() == nil {
		p.warp.Mono.Add(d)
		p.warp.Wall.Add(d)
		p.warp.Boot.Add(d)
	}
}
