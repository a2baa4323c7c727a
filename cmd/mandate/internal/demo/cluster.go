package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
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

// cluster has the demo's Redis nodes and candidates, and what their work has seen.
type cluster struct {
	transcript

	nodes      []*miniredis.Miniredis
	candidates []*candidate

	started sync.Once // guards start
	cancel  context.CancelFunc
	ctx     context.Context // the lifetime of the candidates
	wg      sync.WaitGroup

	seen *observations // of all candidates' work

	leader, before observation // the last two starts of work; owned by the goroutine that plays the steps
}

func newCluster(p *output.Printer, log *slog.Logger) (*cluster, error) {
	c := &cluster{transcript: transcript{out: p, began: time.Now()}, seen: newObservations()}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	for range 3 {
		m := miniredis.NewMiniRedis()
		m.ClockTTL(true)
		if err := m.StartAddr("127.0.0.1:0"); err != nil {
			c.close()
			return nil, fmt.Errorf("starting an embedded Redis: %w", err)
		}
		c.nodes = append(c.nodes, m)
	}
	colors := []output.Color{output.Cyan, output.Yellow, output.Purple}
	for i, name := range []string{"alice", "bob", "carol"} {
		a, err := c.newCandidate(name, log)
		if err != nil {
			c.close()
			return nil, err
		}
		a.color = colors[i]
		c.candidates = append(c.candidates, a)
	}
	return c, nil
}

func (c *cluster) newCandidate(name string, log *slog.Logger) (*candidate, error) {
	a := &candidate{name: name, link: &link{conns: map[net.Conn]struct{}{}}, beat: health.NewHeartbeat(beatBound)}
	var err error
	if a.quorum, err = c.connect(a.link); err != nil {
		return nil, err
	}
	a.elector, err = elector.New(a.quorum, elector.Config{
		Election: demoElection, ID: name, Version: demoVersion, Lease: demoLease, Cooldown: time.Second, Logger: log,
		WorkProbe:         health.Named("heartbeat", a.beat),
		WorkProbeSettings: health.Settings{Interval: 100 * time.Millisecond, Timeout: 100 * time.Millisecond},
	})
	return a, err
}

// connect makes a quorum of the nodes, over a link that a step can cut; nil: over no link.
func (c *cluster) connect(over *link) (*elector.Quorum, error) {
	var clients []redis.UniversalClient
	for _, m := range c.nodes {
		opts := &redis.Options{Addr: m.Addr()}
		if over != nil {
			opts.Dialer = over.dial
		}
		clients = append(clients, redis.NewClient(opts))
	}
	q, err := elector.NewQuorum(clients...)
	for _, client := range clients {
		_ = client.Close() // NewQuorum uses only their options
	}
	return q, err
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
			var ended *elector.Ended
			if errors.As(context.Cause(ctx), &ended) && c.ctx.Err() == nil {
				c.report(a, "stops, "+whyEnded(ended))
			}
			a.hung.Store(false)
			c.observed(observation{workStopped, a, term.Token(), time.Now()})
			return nil
		}
	}
}

// whyEnded returns why a term ended. For a failed probe its error suffices, which has the probe's
// name.
func whyEnded(ended *elector.Ended) string {
	switch {
	case ended.Err == nil:
		return string(ended.Reason)
	case ended.Reason == elector.ReasonUnhealthy:
		return ended.Err.Error()
	default:
		return fmt.Sprintf("%s: %s", ended.Reason, elector.Problem(ended.Err))
	}
}

// other returns another candidate than a.
func (c *cluster) other(a *candidate) *candidate {
	for _, b := range c.candidates {
		if b != a {
			return b
		}
	}
	return a
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
