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
		h.links = append(h.links, &link{host: h, node: n, onCommand: s.onCommand, onSend: s.note})
	}
	return h
}

// boot starts a new life on the host. The name is its own unless given.
func (h *host) boot(name string) *proc {
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
			Addr:   n.addr,
			Dialer: func(context.Context, string, string) (net.Conn, error) { return s.net.dial(p, l) },
		}))
	}
	q, err := elector.NewQuorum(clients...)
	if err != nil {
		panic(err)
	}
	if s.group != nil {
		return p.enter(q, clients)
	}
	p.deploy, p.warmth = s.deployOf(h.id, h.boots), s.newWarmth(p)
	cfg := elector.Config{
		Election: election, ID: name, Advertise: advertised(name), Lease: s.t.lease, RenewEvery: s.t.renewEvery, StopMargin: s.t.stopMargin,
		Cooldown: s.t.cooldown, Logger: s.history.logger(),
		Succession: s.succession, Priority: h.id % 3,
		Probe: p.probe, ProbeSettings: s.probeSettings(), WorkProbe: p.work, WorkProbeSettings: s.probeSettings(),
	}
	if s.o.Deploys {
		s.history.addf("%s: %v", name, p.deploy)
		cfg.Version, cfg.NoDowngrade = p.deploy.version, p.deploy.guarded
		cfg.Warm, cfg.WarmTimeout = p.warmth.warm, s.t.warmTimeout
		if s.o.WarmTimeout != 0 {
			cfg.WarmTimeout = time.Duration(s.o.WarmTimeout * float64(s.t.lease))
		}
	}
	p.e, err = elector.New(q, cfg)
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(lease.WithClock(context.Background(), lease.ClockOf(p.warp, func(g lease.Held) { p.granted.Store(&g) })))
	p.stop = cancel
	p.observe(context.WithoutCancel(ctx))
	for _, e := range s.beside {
		p.sides = append(p.sides, p.newSide(q, e))
	}
	s.mu.Lock()
	s.procs, s.born = append(s.procs, p), append(s.born, p)
	s.mu.Unlock()
	h.proc.Store(p)
	beside := p.runSides(ctx)
	go func() {
		defer close(p.done)
		defer s.forget(p)
		p.live(ctx)
		beside.Wait()
		p.observer.end()
		p.observer.done.Wait()
		_ = q.Close()
		for _, c := range clients {
			_ = c.Close()
		}
	}()
	return p
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
