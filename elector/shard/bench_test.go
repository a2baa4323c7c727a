package shard_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/shard"
	"github.com/mandate-dev/mandate/internal/servertest"
)

// benchGroup is a group on real servers, each member with connections of its own.
type benchGroup struct {
	b       *testing.B
	servers []*servertest.Server
	shards  int
	lease   time.Duration

	mu     sync.Mutex
	owner  map[int]string
	vacant map[int]time.Time
	gaps   []time.Duration // without an owner, of each move
	all    map[string]*benchMember
}

type benchMember struct {
	quorum *elector.Quorum
	stop   context.CancelFunc
	done   chan error
}

func newBenchGroup(b *testing.B, nodes, shards int, lease time.Duration) *benchGroup {
	b.Helper()
	return &benchGroup{
		b: b, servers: servertest.RedisN(b, nodes, "--maxclients", "9000"), shards: shards, lease: lease,
		owner: map[int]string{}, vacant: map[int]time.Time{}, all: map[string]*benchMember{},
	}
}

func (g *benchGroup) join(id string) {
	g.b.Helper()
	var clients []redis.UniversalClient
	for _, s := range g.servers {
		c := redis.NewClient(&redis.Options{Addr: s.Addr()})
		defer c.Close() // only its options are needed
		clients = append(clients, c)
	}
	q, err := elector.NewQuorum(clients...)
	if err != nil {
		g.b.Fatal(err)
	}
	m, err := shard.New(q, shard.Config{
		Group: "bench", Shards: g.shards, ID: id, Lease: g.lease, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		g.b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	one := &benchMember{quorum: q, stop: stop, done: make(chan error, 1)}
	g.all[id] = one
	go func() {
		one.done <- m.Run(ctx, func(ctx context.Context, t *shard.Term) error {
			g.begin(id, t.Shard)
			<-ctx.Done()
			g.end(id, t.Shard)
			return nil
		})
	}()
}

func (g *benchGroup) begin(id string, s int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if o := g.owner[s]; o != "" {
		g.b.Errorf("shard %d: %s beside %s", s, id, o)
	}
	g.owner[s] = id
	if at, ok := g.vacant[s]; ok {
		g.gaps = append(g.gaps, time.Since(at))
		delete(g.vacant, s)
	}
}

func (g *benchGroup) end(id string, s int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.owner[s] == id {
		g.owner[s] = ""
		g.vacant[s] = time.Now()
	}
}

// leave stops a member, and waits for it.
func (g *benchGroup) leave(id string) {
	one := g.all[id]
	delete(g.all, id)
	one.stop()
	if err := <-one.done; err != nil {
		g.b.Error(err)
	}
	_ = one.quorum.Close()
}

// even waits until all shards are owned by those that live, as evenly as can be, and is how
// long that took.
func (g *benchGroup) even(within time.Duration) time.Duration {
	g.b.Helper()
	began := time.Now()
	for time.Since(began) < within {
		if g.isEven() {
			return time.Since(began)
		}
		time.Sleep(2 * time.Millisecond)
	}
	g.b.Fatalf("not even after %v", within)
	return 0
}

func (g *benchGroup) isEven() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	count := map[string]int{}
	for id := range g.all {
		count[id] = 0
	}
	for _, id := range g.owner {
		if _, lives := count[id]; !lives {
			return false
		}
		count[id]++
	}
	least, most := g.shards, 0
	for _, n := range count {
		least, most = min(least, n), max(most, n)
	}
	return len(g.owner) == g.shards && most-least <= 1
}

// moves are the gaps of the moves since it was called last, in order.
func (g *benchGroup) moves() []time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := g.gaps
	g.gaps = nil
	slices.Sort(all)
	return all
}

func (g *benchGroup) stopAll() {
	for _, one := range g.all {
		one.stop()
	}
	for _, one := range g.all {
		if err := <-one.done; err != nil {
			g.b.Error(err)
		}
		_ = one.quorum.Close()
	}
}

// BenchmarkGroup: 1,024 shards over 8 members and 3 nodes, all in one process: until all is
// owned evenly after the start, a join and an orderly leave, and for how long a planned
// move leaves a shard without an owner.
func BenchmarkGroup(b *testing.B) {
	const lease = 10 * time.Second
	g := newBenchGroup(b, 3, 1024, lease)
	for i := range 8 {
		g.join(fmt.Sprint("member-", i))
	}
	ms := func(name string, d time.Duration) { b.ReportMetric(float64(d.Microseconds())/1e3, name+"-ms") }
	ms("start", g.even(time.Minute))
	next := 8
	for b.Loop() {
		g.moves()
		began := time.Now()
		g.join(fmt.Sprint("member-", next))
		time.Sleep(10 * time.Millisecond)
		g.even(time.Minute)
		ms("join", time.Since(began))
		gaps := g.moves()
		b.ReportMetric(float64(len(gaps)), "join-moves")
		ms("gap-p50", gaps[len(gaps)/2])
		ms("gap-p99", gaps[len(gaps)*99/100])
		ms("gap-max", gaps[len(gaps)-1])

		began = time.Now()
		g.leave(fmt.Sprint("member-", next-8))
		g.even(time.Minute)
		ms("leave", time.Since(began))
		gaps = g.moves()
		b.ReportMetric(float64(len(gaps)), "leave-moves")
		ms("leave-gap-p99", gaps[len(gaps)*99/100])
		next++
	}
	g.stopAll()
}

// BenchmarkDrain: a member that owns 200 of 1,000 shards leaves the other four, on 3 nodes: until
// it has left, and for how long its shards are without an owner, from the end of their work to
// its begin elsewhere.
func BenchmarkDrain(b *testing.B) {
	g := newBenchGroup(b, 3, 1000, 10*time.Second)
	for i := range 5 {
		g.join(fmt.Sprint("member-", i))
	}
	g.even(time.Minute)
	var gaps []time.Duration
	var longest time.Duration
	next := 5
	for b.Loop() {
		g.moves()
		began := time.Now()
		g.leave(fmt.Sprint("member-", next-5))
		longest = max(longest, time.Since(began))
		g.even(time.Minute)
		moved := g.moves()
		if len(moved) != 200 {
			b.Errorf("%d shards moved, 200 are those of the member", len(moved))
		}
		gaps = append(gaps, moved...)
		g.join(fmt.Sprint("member-", next))
		time.Sleep(10 * time.Millisecond)
		g.even(time.Minute)
		next++
	}
	slices.Sort(gaps)
	b.ReportMetric(float64(longest.Milliseconds()), "leave-ms")
	for name, at := range map[string]int{"gap-p50-ms": len(gaps) / 2, "gap-p99-ms": len(gaps) * 99 / 100, "gap-max-ms": len(gaps) - 1} {
		b.ReportMetric(float64(gaps[at].Microseconds())/1e3, name)
	}
	g.stopAll()
}

// BenchmarkRollingRestart: eight members are stopped and started again, one after another. The
// fewest moves are those of a leave, all that the member owned, and those of a join, its part.
func BenchmarkRollingRestart(b *testing.B) {
	for _, shards := range []int{256, 1024} {
		b.Run(fmt.Sprint(shards, " shards"), func(b *testing.B) {
			g := newBenchGroup(b, 3, shards, 10*time.Second)
			for i := range 8 {
				g.join(fmt.Sprint("member-", i))
			}
			g.even(time.Minute)
			moves, fewest := 0, 0
			for b.Loop() {
				for i := range 8 {
					g.moves()
					g.leave(fmt.Sprint("member-", i))
					g.even(time.Minute)
					g.join(fmt.Sprint("member-", i))
					time.Sleep(10 * time.Millisecond)
					g.even(time.Minute)
					moves += len(g.moves())
					fewest += 2 * (shards / 8)
				}
			}
			b.ReportMetric(float64(moves)/float64(fewest), "moves/fewest")
			g.stopAll()
		})
	}
}
