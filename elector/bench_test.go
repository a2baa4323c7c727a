package elector_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector"
)

// The benchmarks run against real redis-servers on loopback, and put what they
// measure beside a floor measured in the same run: a ratio says more than a
// time on somebody's machine.

// benchServer starts a redis-server for a benchmark and returns its address and
// its process.
func benchServer(b *testing.B) (string, *exec.Cmd) {
	b.Helper()
	bin, err := exec.LookPath("redis-server")
	if err != nil {
		b.Skip("no redis-server on PATH: install it to run the benchmarks")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	addr := l.Addr().String()
	_, port, _ := net.SplitHostPort(addr)
	_ = l.Close()
	cmd := exec.Command(bin, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", b.TempDir(), "--maxclients", "9000")
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGCONT)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	c := redis.NewClient(&redis.Options{Addr: addr})
	defer func() { _ = c.Close() }()
	for c.Ping(b.Context()).Err() != nil {
		time.Sleep(5 * time.Millisecond)
	}
	return addr, cmd
}

func benchServers(b *testing.B, n int) (addrs []string, cmds []*exec.Cmd) {
	b.Helper()
	for range n {
		addr, cmd := benchServer(b)
		addrs, cmds = append(addrs, addr), append(cmds, cmd)
	}
	return addrs, cmds
}

func benchQuorum(b *testing.B, addrs []string) *elector.Quorum {
	b.Helper()
	var urls []string
	for _, a := range addrs {
		urls = append(urls, "redis://"+a)
	}
	q, err := elector.Open(urls...)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = q.Close() })
	return q
}

// led is one beginning of a term.
type led struct {
	e  *elector.Elector
	at time.Time
}

// benchCandidates runs n candidates, each on connections of its own, until the
// benchmark ends, and reports every term on the channel.
func benchCandidates(b *testing.B, addrs []string, n int, cfg elector.Config) <-chan led {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	terms := make(chan led, n)
	done := make(chan error, n)
	cfg.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	for i := range n {
		q := benchQuorum(b, addrs)
		cfg.ID = fmt.Sprint("candidate-", i)
		e, err := elector.New(q, cfg)
		if err != nil {
			b.Fatal(err)
		}
		go func() {
			done <- e.Run(ctx, func(ctx context.Context, _ *elector.Term) error {
				terms <- led{e, time.Now()}
				<-ctx.Done()
				return nil
			})
		}()
	}
	b.Cleanup(func() {
		cancel()
		for range n {
			select {
			case err := <-done:
				if err != nil {
					b.Error(err)
				}
			case <-terms:
			}
		}
	})
	return terms
}

func median(d []time.Duration) time.Duration {
	if len(d) == 0 {
		return 0
	}
	s := slices.Clone(d)
	slices.Sort(s)
	return s[len(s)/2]
}

func report(b *testing.B, name string, d time.Duration) {
	b.ReportMetric(float64(d.Nanoseconds())/1e3, name+"-µs")
}

// floor is what a hand-over costs at the least: one script that deletes and
// publishes, the delivery, and one SET NX by the other client.
type floor struct {
	a, o *redis.Client
	ps   *redis.PubSub
	all  []time.Duration
}

func newFloor(b *testing.B, addr string) *floor {
	b.Helper()
	f := &floor{a: redis.NewClient(&redis.Options{Addr: addr}), o: redis.NewClient(&redis.Options{Addr: addr})}
	f.ps = f.o.Subscribe(b.Context(), "floor")
	b.Cleanup(func() { _, _, _ = f.ps.Close(), f.a.Close(), f.o.Close() })
	if _, err := f.ps.Receive(b.Context()); err != nil {
		b.Fatal(err)
	}
	return f
}

var floorScript = redis.NewScript(`redis.call('DEL', KEYS[1]) redis.call('PUBLISH', 'floor', 'x') return 1`)

// round measures the floor once, after the same idle time as a hand-over has
// before it: servers and processors that sleep take longer to answer.
func (f *floor) round(b *testing.B, idle time.Duration) {
	b.Helper()
	ctx := b.Context()
	f.a.Set(ctx, "floor:lock", "a", time.Minute)
	time.Sleep(idle)
	start := time.Now()
	go func() { _ = floorScript.Run(ctx, f.a, []string{"floor:lock"}).Err() }()
	if _, err := f.ps.ReceiveMessage(ctx); err != nil {
		b.Fatal(err)
	}
	if ok, err := f.o.SetNX(ctx, "floor:lock", "b", time.Minute).Result(); err != nil || !ok {
		b.Fatal(ok, err)
	}
	f.all = append(f.all, time.Since(start))
}

// BenchmarkHandover: graceful, among three candidates, from Resign to the
// beginning of the next leader's work.
func BenchmarkHandover(b *testing.B) {
	for _, n := range []int{1, 3, 5} {
		b.Run(fmt.Sprintf("nodes=%d", n), func(b *testing.B) {
			addrs, _ := benchServers(b, n)
			floor := newFloor(b, addrs[0])
			terms := benchCandidates(b, addrs, 3, elector.Config{Election: "handover", Cooldown: time.Millisecond})
			leader := <-terms
			time.Sleep(100 * time.Millisecond) // all subscribed
			var all []time.Duration
			const idle = 10 * time.Millisecond // the old leader is back in the row
			for b.Loop() {
				floor.round(b, idle)
				time.Sleep(idle)
				start := time.Now()
				go func(e *elector.Elector) { _ = e.Resign(context.Background()) }(leader.e)
				leader = <-terms
				all = append(all, leader.at.Sub(start))
			}
			report(b, "floor", median(floor.all))
			report(b, "median", median(all))
			report(b, "max", slices.Max(all))
			b.ReportMetric(float64(median(all))/float64(median(floor.all)), "x-floor")
		})
	}
}

// BenchmarkCrash: how long after the end of the dead leader's lease, as Redis
// counts it, the next leader's work begins. The leader dies with its process,
// so here its keys are planted by hand: nobody renews and nobody releases them.
func BenchmarkCrash(b *testing.B) {
	const lease = time.Second
	for _, n := range []int{1, 3} {
		b.Run(fmt.Sprintf("nodes=%d", n), func(b *testing.B) {
			addrs, _ := benchServers(b, n)
			cfg := elector.Config{Election: "crash", Lease: lease, Cooldown: time.Millisecond}
			terms := benchCandidates(b, addrs, 3, cfg)
			leader := <-terms
			var all []time.Duration
			for b.Loop() {
				time.Sleep(50 * time.Millisecond)
				end := plantDead(b, addrs, "mandate:{crash}:", n, lease)
				_ = leader.e.Resign(context.Background())
				leader = <-terms
				all = append(all, leader.at.Sub(end))
			}
			report(b, "median-after-lease", median(all))
			report(b, "max-after-lease", slices.Max(all))
		})
	}
}

// plantDead overwrites the lock on every node with that of a leader that died,
// and returns when its lease will have ended on a majority.
func plantDead(b *testing.B, addrs []string, prefix string, n int, lease time.Duration) time.Time {
	b.Helper()
	var ends []time.Time
	for _, a := range addrs {
		c := redis.NewClient(&redis.Options{Addr: a})
		value := fmt.Sprintf("dead/dead/1 n=%d lease=%d", n, lease.Milliseconds())
		if err := c.Set(b.Context(), prefix+"lock", value, lease).Err(); err != nil {
			b.Fatal(err)
		}
		ends = append(ends, time.Now().Add(lease))
		_ = c.Close()
	}
	return ends[n/2]
}

// BenchmarkIdle: what an idle follower asks for, per lease and node, and what it
// holds beyond the quorum that it shares.
func BenchmarkIdle(b *testing.B) {
	const lease, leases = time.Second, 8
	addr, _ := benchServer(b)
	terms := benchCandidates(b, []string{addr}, 2, elector.Config{Election: "idle", Lease: lease})
	<-terms
	c := redis.NewClient(&redis.Options{Addr: addr})
	defer func() { _ = c.Close() }()
	for b.Loop() {
		time.Sleep(lease)
		before := evals(b, c)
		time.Sleep(leases * lease)
		// The leader renews four times a lease.
		b.ReportMetric(float64(evals(b, c)-before)/leases-4, "follower-requests/lease")
	}
}

func evals(b *testing.B, c *redis.Client) int64 {
	b.Helper()
	info, err := c.InfoMap(b.Context(), "commandstats").Result()
	if err != nil {
		b.Fatal(err)
	}
	var calls int64
	_, _ = fmt.Sscanf(info["Commandstats"]["cmdstat_evalsha"], "calls=%d", &calls)
	return calls
}

// BenchmarkHungMinority: renewals and hand-overs with a stopped node, beside
// the same with all nodes up.
func BenchmarkHungMinority(b *testing.B) {
	for _, n := range []int{3, 5} {
		for _, hung := range []int{0, 1} {
			b.Run(fmt.Sprintf("nodes=%d/hung=%d", n, hung), func(b *testing.B) {
				addrs, cmds := benchServers(b, n)
				terms := benchCandidates(b, addrs, 3, elector.Config{Election: "hung", Cooldown: time.Millisecond})
				leader := <-terms
				time.Sleep(100 * time.Millisecond)
				for i := range hung {
					_ = cmds[i].Process.Signal(syscall.SIGSTOP)
				}
				var all []time.Duration
				for b.Loop() {
					start := time.Now()
					go func(e *elector.Elector) { _ = e.Resign(context.Background()) }(leader.e)
					leader = <-terms
					all = append(all, leader.at.Sub(start))
					time.Sleep(10 * time.Millisecond)
				}
				report(b, "median", median(all))
				report(b, "max", slices.Max(all))
			})
		}
	}
}

// BenchmarkCrowd: a hand-over with 1000 followers, each on connections of its
// own, and the requests that it takes.
func BenchmarkCrowd(b *testing.B) {
	const followers, lease = 1000, 20 * time.Second
	addr, _ := benchServer(b)
	terms := benchCandidates(b, []string{addr}, followers, elector.Config{Election: "crowd", Lease: lease})
	leader := <-terms
	time.Sleep(lease + lease/2) // the front row has sorted itself out
	c := redis.NewClient(&redis.Options{Addr: addr})
	defer func() { _ = c.Close() }()
	var all []time.Duration
	var requests []int64
	for b.Loop() {
		time.Sleep(200 * time.Millisecond)
		before, from := evals(b, c), time.Now()
		time.Sleep(200 * time.Millisecond)
		steady := float64(evals(b, c)-before) / time.Since(from).Seconds()
		before, start := evals(b, c), time.Now()
		go func(e *elector.Elector) { _ = e.Resign(context.Background()) }(leader.e)
		leader = <-terms
		all = append(all, leader.at.Sub(start))
		time.Sleep(100 * time.Millisecond)
		requests = append(requests, evals(b, c)-before-int64(steady*time.Since(start).Seconds()))
	}
	slices.Sort(requests)
	report(b, "median", median(all))
	report(b, "max", slices.Max(all))
	b.ReportMetric(float64(requests[len(requests)/2]), "requests-beyond-steady")
}

// BenchmarkIsLeader: the clock is read at every call.
func BenchmarkIsLeader(b *testing.B) {
	addr, _ := benchServer(b)
	terms := benchCandidates(b, []string{addr}, 1, elector.Config{Election: "isleader"})
	e := (<-terms).e
	var yes atomic.Int64
	b.ReportAllocs()
	for b.Loop() {
		if e.IsLeader() {
			yes.Add(1)
		}
	}
	if yes.Load() == 0 {
		b.Fatal("never the leader")
	}
}

// BenchmarkFollower: what a follower holds beyond the quorum that it shares.
func BenchmarkFollower(b *testing.B) {
	const followers = 1000
	addr, _ := benchServer(b)
	leader := benchQuorum(b, []string{addr})
	shared := benchQuorum(b, []string{addr})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	b.Cleanup(func() { cancel(); wg.Wait() })
	work := func(ctx context.Context, _ *elector.Term) error { <-ctx.Done(); return nil }
	run := func(q *elector.Quorum, election int) *elector.Elector {
		e, err := elector.New(q, elector.Config{
			Election: fmt.Sprint("shard-", election), Lease: time.Minute, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			b.Fatal(err)
		}
		wg.Go(func() { _ = e.Run(ctx, work) })
		return e
	}
	for i := range followers {
		for e := run(leader, i); !e.IsLeader(); {
			time.Sleep(100 * time.Microsecond)
		}
	}
	run(shared, 0) // its connections are there
	time.Sleep(time.Second)
	heap, goroutines := held()
	for b.Loop() {
		for i := 1; i < followers; i++ {
			run(shared, i)
		}
		time.Sleep(3 * time.Second) // all have claimed once and wait
		h, g := held()
		b.ReportMetric(float64(h-heap)/(followers-1), "heap-B/follower")
		b.ReportMetric(float64(g-goroutines)/(followers-1), "goroutines/follower")
	}
}

func held() (heap, goroutines int64) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc), int64(runtime.NumGoroutine())
}

// BenchmarkRequests: a renewal is one request per node; they come every quarter of
// the lease.
func BenchmarkRequests(b *testing.B) {
	for _, n := range []int{1, 3, 5} {
		b.Run(fmt.Sprintf("nodes=%d", n), func(b *testing.B) {
			const lease = time.Second
			addrs, _ := benchServers(b, n)
			terms := benchCandidates(b, addrs, 1, elector.Config{Election: "requests", Lease: lease})
			<-terms
			c := redis.NewClient(&redis.Options{Addr: addrs[n-1]})
			defer func() { _ = c.Close() }()
			for b.Loop() {
				time.Sleep(lease / 8)
				before := evals(b, c)
				time.Sleep(4 * lease)
				b.ReportMetric(float64(evals(b, c)-before)/16, "requests/renewal/node")
			}
		})
	}
}
