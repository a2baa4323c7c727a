package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/health"
)

const (
	demoElection = "demo"
	demoVersion  = "1.4.0" // of the candidates
	demoLease    = 1500 * time.Millisecond
	beatBound    = time.Second // of the heartbeat
)

// candidate is a candidate of the demo, with its own connections.
type candidate struct {
	name    string
	color   output.Color
	link    link
	quorum  *elector.Quorum
	elector *elector.Elector
	beat    *health.Heartbeat
	hung    atomic.Bool // its work does not beat the heartbeat
}

// cluster has the demo's Redis nodes and candidates, and what their work has seen.
type cluster struct {
	transcript

	nodes      []*miniredis.Miniredis
	candidates []*candidate

	cancel context.CancelFunc
	ctx    context.Context // the lifetime of the candidates
	wg     sync.WaitGroup

	seen observations // of all candidates' work

	leader, before observation // the last two starts of work; owned by the goroutine that plays the steps
}

// newCluster returns a cluster that is to be closed, also after an error.
func newCluster(p *output.Printer, log *slog.Logger) (*cluster, error) {
	c := &cluster{transcript: transcript{out: p, began: time.Now()}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	for range 3 {
		m := miniredis.NewMiniRedis()
		m.ClockTTL(true)
		if err := m.StartAddr("127.0.0.1:0"); err != nil {
			return c, fmt.Errorf("starting an embedded Redis: %w", err)
		}
		c.nodes = append(c.nodes, m)
	}
	colors := []output.Color{output.Cyan, output.Yellow, output.Purple}
	for i, name := range []string{"alice", "bob", "carol"} {
		a, err := c.newCandidate(name, log)
		if err != nil {
			return c, err
		}
		a.color = colors[i]
		c.candidates = append(c.candidates, a)
	}
	return c, nil
}

func (c *cluster) newCandidate(name string, log *slog.Logger) (*candidate, error) {
	a := &candidate{name: name, beat: health.NewHeartbeat(beatBound)}
	var err error
	var clients []redis.UniversalClient
	for _, m := range c.nodes {
		clients = append(clients, redis.NewClient(&redis.Options{Addr: m.Addr(), Dialer: a.link.dial}))
	}
	a.quorum, err = elector.NewQuorum(clients...)
	for _, client := range clients {
		_ = client.Close() // NewQuorum uses only their options
	}
	if err != nil {
		return nil, err
	}
	a.elector, err = elector.New(a.quorum, elector.Config{
		Election: demoElection, ID: name, Version: demoVersion, Lease: demoLease, Cooldown: time.Second, Logger: log,
		WorkProbe:         health.Named("heartbeat", a.beat),
		WorkProbeSettings: health.Settings{Interval: 100 * time.Millisecond, Timeout: 100 * time.Millisecond},
	})
	return a, err
}

func (c *cluster) start() {
	for _, a := range c.candidates {
		c.wg.Go(func() {
			err := a.elector.Run(c.ctx, func(ctx context.Context, term *elector.Term) error { return c.work(ctx, a, term) })
			if err != nil {
				c.note("%s gave up: %v", a.name, err)
			}
		})
	}
}

func (c *cluster) work(ctx context.Context, a *candidate, term *elector.Term) error {
	c.observed(observation{workStarted, a, term.Token(), time.Now()})
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if !a.hung.Load() {
				a.beat.Beat()
			}
		case <-ctx.Done():
			c.observed(observation{workCanceled, a, term.Token(), time.Now()})
			if ended, ok := errors.AsType[*elector.Ended](context.Cause(ctx)); ok && c.ctx.Err() == nil {
				c.report(a, "stops, "+strings.TrimPrefix(ended.Error(), "term ended: "))
			}
			a.hung.Store(false)
			c.observed(observation{workStopped, a, term.Token(), time.Now()})
			return nil
		}
	}
}

// hang makes a node accept requests without answering them, until the returned function is called.
func (c *cluster) hang(i int) (unhang func()) {
	block := make(chan struct{})
	srv := c.nodes[i].Server()
	srv.SetPreHook(func(*server.Peer, string, ...string) bool {
		<-block
		return false
	})
	return sync.OnceFunc(func() {
		srv.SetPreHook(nil)
		close(block)
	})
}

func (c *cluster) close() {
	c.cancel()
	for _, a := range c.candidates {
		a.link.restore()
	}
	c.wg.Wait()
	for _, a := range c.candidates {
		_ = a.quorum.Close()
	}
	for _, m := range c.nodes {
		m.Close()
	}
}

func (c *cluster) observed(o observation) {
	c.seen.add(o)
	if o.kind == workStarted {
		c.report(o.who, fmt.Sprintf("leads with token %d", o.token))
	}
}

// link is a candidate's network connection, which a step can cut.
type link struct {
	mu    sync.Mutex // guards down and conns
	down  bool
	conns []net.Conn
}

var errCut = errors.New("the network is cut")

func (l *link) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down {
		return nil, errors.Join(errCut, conn.Close())
	}
	l.conns = append(l.conns, conn)
	return conn, nil
}

func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = true
	for _, c := range l.conns {
		_ = c.Close()
	}
}

func (l *link) restore() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = false
}
