package main

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

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/health"
)

const (
	demoElection = "demo"
	demoLease    = 1500 * time.Millisecond
	demoBeat     = 500 * time.Millisecond // the heartbeat's bound
	demoPatience = 8 * time.Second        // for anything that should happen
)

// stage holds everything of the demo: the nodes, the candidates, and what the
// candidates' work has seen so far.
type stage struct {
	paper *paper
	nodes []*miniredis.Miniredis
	cast  []*actor

	cancel context.CancelFunc
	ctx    context.Context // the life of the candidates, which steps start and end
	wg     sync.WaitGroup

	mu    sync.Mutex
	facts []fact
	news  chan struct{} // closed at the next fact
	began time.Time

	leader, before fact // the last two starts of work; of the steps only
}

// fact is something that the work of a candidate has seen.
type fact struct {
	kind  factKind
	who   *actor
	token uint64
	at    time.Time
}

type factKind int

const (
	starts factKind = iota // the work starts
	told                   // it is told to stop
	stops                  // it has stopped
)

// actor is a candidate with connections of its own.
type actor struct {
	name    string
	colour  string
	gate    *gate
	quorum  *elector.Quorum
	elector *elector.Elector
	beat    *health.Heartbeat
	stalled atomic.Bool
}

func newStage(p *paper, log *slog.Logger) (*stage, error) {
	s := &stage{paper: p, news: make(chan struct{}), began: time.Now()}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	for range 3 {
		m := miniredis.NewMiniRedis()
		m.ClockTTL(true)
		if err := m.StartAddr("127.0.0.1:0"); err != nil {
			s.close()
			return nil, fmt.Errorf("starting an embedded Redis: %w", err)
		}
		s.nodes = append(s.nodes, m)
	}
	for i, name := range []string{"alice", "bob", "carol"} {
		a, err := s.newActor(name, log)
		if err != nil {
			s.close()
			return nil, err
		}
		a.colour = []string{"36", "33", "35"}[i]
		s.cast = append(s.cast, a)
	}
	return s, nil
}

func (s *stage) newActor(name string, log *slog.Logger) (*actor, error) {
	a := &actor{name: name, gate: &gate{conns: map[net.Conn]struct{}{}}, beat: health.NewHeartbeat(demoBeat)}
	var clients []redis.UniversalClient
	for _, m := range s.nodes {
		clients = append(clients, redis.NewClient(&redis.Options{Addr: m.Addr(), Dialer: a.gate.dial}))
	}
	var err error
	a.quorum, err = elector.NewQuorum(clients...)
	for _, c := range clients {
		_ = c.Close() // only its options were needed
	}
	if err != nil {
		return nil, err
	}
	a.elector, err = elector.New(a.quorum, elector.Config{
		Election: demoElection, ID: name, Lease: demoLease, Cooldown: time.Second, Logger: log,
		WorkProbe:         health.Named("heartbeat", a.beat),
		WorkProbeSettings: health.Settings{Interval: 100 * time.Millisecond, Timeout: 100 * time.Millisecond},
	})
	return a, err
}

// start lets the candidates take part.
func (s *stage) start() {
	for _, a := range s.cast {
		s.wg.Go(func() {
			err := a.elector.Run(s.ctx, func(ctx context.Context, term *elector.Term) error { return s.work(ctx, a, term) })
			if err != nil {
				s.note("%s gave up: %v", a.name, err)
			}
		})
	}
}

// work is what a leader of the demo does: it beats, until it is told to stop.
func (s *stage) work(ctx context.Context, a *actor, term *elector.Term) error {
	s.add(fact{starts, a, term.Token(), time.Now()})
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if !a.stalled.Load() {
				a.beat.Beat()
			}
		case <-ctx.Done():
			s.add(fact{told, a, term.Token(), time.Now()})
			var ended *elector.Ended
			if errors.As(context.Cause(ctx), &ended) && s.ctx.Err() == nil {
				s.say(a, "stops, "+strings.TrimPrefix(strings.TrimPrefix(ended.Error(), "elector: term ended: "), "unhealthy: "))
			}
			a.stalled.Store(false)
			s.add(fact{stops, a, term.Token(), time.Now()})
			return nil
		}
	}
}

func (s *stage) add(f fact) {
	s.mu.Lock()
	s.facts = append(s.facts, f)
	close(s.news)
	s.news = make(chan struct{})
	s.mu.Unlock()
	if f.kind == starts {
		s.say(f.who, fmt.Sprintf("leads with token %d", f.token))
	}
}

// await waits for the first fact of a kind.
func (s *stage) await(ctx context.Context, is func(fact) bool) (fact, error) {
	ctx, cancel := context.WithTimeout(ctx, demoPatience)
	defer cancel()
	for {
		s.mu.Lock()
		news := s.news
		for _, f := range s.facts {
			if is(f) {
				s.mu.Unlock()
				return f, nil
			}
		}
		s.mu.Unlock()
		select {
		case <-news:
		case <-ctx.Done():
			return fact{}, errors.New("it did not happen in time")
		}
	}
}

// succession waits for the end of the old leader's work and the start of the
// next one's, and checks that they don't overlap.
func (s *stage) succession(ctx context.Context, old fact) (stopped, next fact, err error) {
	stopped, err = s.await(ctx, func(f fact) bool { return f.kind == stops && f.token == old.token })
	if err != nil {
		return stopped, next, err
	}
	next, err = s.await(ctx, func(f fact) bool { return f.kind == starts && f.token > old.token })
	if err != nil {
		return stopped, next, err
	}
	if next.at.Before(stopped.at) {
		return stopped, next, errors.New("two worked at once")
	}
	s.before, s.leader = old, next
	return stopped, next, nil
}

// other is a candidate that is not this one.
func (s *stage) other(a *actor) *actor {
	for _, b := range s.cast {
		if b != a {
			return b
		}
	}
	return a
}

// hang makes a node accept and never answer, until the returned function is called.
func (s *stage) hang(i int) (unhang func()) {
	block := make(chan struct{})
	srv := s.nodes[i].Server()
	srv.SetPreHook(func(*server.Peer, string, ...string) bool {
		<-block
		return false
	})
	return sync.OnceFunc(func() {
		srv.SetPreHook(nil)
		close(block)
	})
}

// fenced is a write as a resource with a token check does it.
const fenced = `
if tonumber(redis.call('HGET', KEYS[1], 'token') or '0') > tonumber(ARGV[1]) then return 0 end
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'value', ARGV[2])
return 1`

const registerKey = "demo:register"

// write writes a leader's name under its token; false: it was refused.
func (s *stage) write(ctx context.Context, f fact) (bool, error) {
	rdb := redis.NewClient(&redis.Options{Addr: s.nodes[0].Addr()})
	defer func() { _ = rdb.Close() }()
	n, err := rdb.Eval(ctx, fenced, []string{registerKey}, f.token, f.who.name).Int()
	return n == 1, err
}

func (s *stage) register(ctx context.Context) (string, error) {
	rdb := redis.NewClient(&redis.Options{Addr: s.nodes[0].Addr()})
	defer func() { _ = rdb.Close() }()
	return rdb.HGet(ctx, registerKey, "value").Result()
}

func (s *stage) close() {
	s.cancel()
	for _, a := range s.cast {
		a.gate.open()
	}
	s.wg.Wait()
	for _, a := range s.cast {
		_ = a.quorum.Close()
	}
	for _, m := range s.nodes {
		m.Close()
	}
}
