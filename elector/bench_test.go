//go:build unix

package elector_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

// The benchmarks run against real redis-servers on loopback, and put what they
// measure beside a floor measured in the same run: a ratio says more than a
// time on somebody's machine.

// benchServers starts redis-servers that keep nothing on disk.
func benchServers(b *testing.B, n int) []*servertest.Server {
	b.Helper()
	return servertest.RedisN(b, n, "--maxclients", "9000")
}

// led is one beginning of a term.
type led struct {
	e  *elector.Elector
	at time.Time
}

// benchCandidates runs n candidates until the benchmark ends, each on the connections that quorum returns, and
// reports every term on the channel.
func benchCandidates(b *testing.B, quorum func() *elector.Quorum, n int, cfg elector.Config) <-chan led {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	terms := make(chan led, n)
	for i := range n {
		cfg.ID = fmt.Sprint("candidate-", i)
		benchRun(b, ctx, quorum(), cfg, func(e *elector.Elector) {
			select {
			case terms <- led{e, time.Now()}:
			case <-ctx.Done():
			}
		})
	}
	b.Cleanup(cancel) // of all at once
	return terms
}

// benchRun runs a candidate, which calls leads when it does. The benchmark's end waits for it.
func benchRun(b *testing.B, ctx context.Context, q *elector.Quorum, cfg elector.Config, leads func(*elector.Elector)) *elector.Elector {
	b.Helper()
	cfg.Logger = slog.New(slog.DiscardHandler)
	e, err := elector.New(q, cfg)
	must(b, err)
	done := make(chan error, 1)
	go func() {
		done <- e.Run(ctx, func(ctx context.Context, _ *elector.Term) error {
			leads(e)
			<-ctx.Done()
			return nil
		})
	}()
	b.Cleanup(func() {
		if err := <-done; err != nil {
			b.Error(err)
		}
	})
	return e
}

// own returns connections of its own to these servers, each time.
func own(b *testing.B, servers []*servertest.Server) func() *elector.Quorum {
	return func() *elector.Quorum { return realQuorum(b, servers...) }
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

// floor is what a handover costs at the least: one script that deletes and
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

// round measures the floor once, after the same idle time as a handover has
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
			servers := benchServers(b, n)
			floor := newFloor(b, servers[0].Addr())
			terms := benchCandidates(b, own(b, servers), 3, elector.Config{Election: "handover", Cooldown: time.Millisecond})
			leader := <-terms
			time.Sleep(100 * time.Millisecond) // all subscribed
			var all []time.Duration
			const idle = 10 * time.Millisecond // the old leader follows again
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
			servers := benchServers(b, n)
			cfg := elector.Config{Election: "crash", Lease: lease, Cooldown: time.Millisecond}
			terms := benchCandidates(b, own(b, servers), 3, cfg)
			leader := <-terms
			var all []time.Duration
			for b.Loop() {
				time.Sleep(50 * time.Millisecond)
				end := plantDead(b, servers, "mandate:{crash}:", n, lease)
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
func plantDead(b *testing.B, servers []*servertest.Server, prefix string, n int, lease time.Duration) time.Time {
	b.Helper()
	var ends []time.Time
	for _, server := range servers {
		c := redis.NewClient(&redis.Options{Addr: server.Addr()})
		value := fmt.Sprintf("dead/dead/1 n=%d lease=%d", n, lease.Milliseconds())
		must(b, c.Set(b.Context(), prefix+"lock", value, lease).Err())
		ends = append(ends, time.Now().Add(lease))
		_ = c.Close()
	}
	return ends[n/2]
}

// BenchmarkManyFollowers: a handover with 1000 followers, each of them on connections of its own, and all on the same.
func BenchmarkManyFollowers(b *testing.B) {
	const followers, lease = 1000, 20 * time.Second
	cfg := elector.Config{Election: "followers", Lease: lease}
	for name, n := range map[string]int{"nodes=1/own": 1, "nodes=3/shared": 3} {
		b.Run(name, func(b *testing.B) {
			servers := benchServers(b, n)
			quorum := own(b, servers)
			if n == 3 {
				shared := quorum()
				quorum = func() *elector.Quorum { return shared }
			}
			terms := benchCandidates(b, quorum, followers, cfg)
			leader := <-terms
			time.Sleep(lease + lease/2) // all have claimed since
			var all []time.Duration
			for b.Loop() {
				time.Sleep(400 * time.Millisecond)
				start := time.Now()
				go func(e *elector.Elector) { _ = e.Resign(context.Background()) }(leader.e)
				leader = <-terms
				all = append(all, leader.at.Sub(start))
			}
			report(b, "median", median(all))
			report(b, "max", slices.Max(all))
		})
	}
}

// BenchmarkIsLeader: the clock is read at every call.
func BenchmarkIsLeader(b *testing.B) {
	servers := benchServers(b, 1)
	terms := benchCandidates(b, own(b, servers), 1, elector.Config{Election: "isleader"})
	e := (<-terms).e
	yes := 0
	b.ReportAllocs()
	for b.Loop() {
		if e.IsLeader() {
			yes++
		}
	}
	if yes == 0 {
		b.Fatal("never the leader")
	}
}

// BenchmarkMany: what one more election costs a process that leads, or follows, a thousand of them,
// and the processor time of all, with those that lead and those that follow, while nothing happens.
func BenchmarkMany(b *testing.B) {
	for _, n := range []int{1, 3} {
		b.Run(fmt.Sprintf("nodes=%d", n), func(b *testing.B) {
			const elections, lease = 1000, 3 * time.Second
			servers := benchServers(b, n)
			ctx, cancel := context.WithCancel(context.Background())
			each := map[string]float64{}
			begin := func(role string, begun func(*elector.Elector)) {
				q, before := realQuorum(b, servers...), held()
				for i := range elections {
					begun(benchRun(b, ctx, q, elector.Config{Election: fmt.Sprint("shard-", i), Lease: lease}, func(*elector.Elector) {}))
				}
				time.Sleep(2 * lease) // all have claimed and wait
				now := held()
				each[role+"-heap-KiB/election"] = (now.heap - before.heap) / 1024 / elections
				each[role+"-stack-KiB/election"] = (now.stacks - before.stacks) / 1024 / elections
				each[role+"-goroutines/election"] = (now.goroutines - before.goroutines) / elections
			}
			begin("leader", func(e *elector.Elector) {
				servertest.Eventually(b, time.Minute, "it leads", e.IsLeader)
			})
			begin("follower", func(*elector.Elector) {})
			b.Cleanup(cancel)
			for b.Loop() {
				before, began := held().cpu, time.Now()
				time.Sleep(4 * lease)
				cores := (held().cpu - before).Seconds() / time.Since(began).Seconds()
				b.ReportMetric(cores*60, "cpu-s/min")
				b.ReportMetric(float64(elections*n)/lease.Seconds()/cores, "elections×nodes/lease-s/core")
			}
			for what, v := range each {
				b.ReportMetric(v, what)
			}
		})
	}
}

// BenchmarkHundred: what 100 elections with three candidates each cost a Redis, with the default lease: the candidates share three
// processes, or have each its own.
func BenchmarkHundred(b *testing.B) {
	for _, processes := range []int{3, 300} {
		b.Run(fmt.Sprintf("processes=%d", processes), func(b *testing.B) {
			const elections, candidates, lease = 100, 300, 10 * time.Second
			servers := benchServers(b, 1)
			start := statsOf(b, servers[0])
			ctx, cancel := context.WithCancel(context.Background())
			quorums := make([]*elector.Quorum, processes)
			for i := range candidates {
				at := i / (candidates / processes)
				if quorums[at] == nil {
					quorums[at] = realQuorum(b, servers...)
				}
				benchRun(b, ctx, quorums[at], elector.Config{Election: fmt.Sprint("election-", i%elections)}, func(*elector.Elector) {})
			}
			b.Cleanup(cancel)
			time.Sleep(2 * lease) // all have claimed and wait
			for b.Loop() {
				before, began := statsOf(b, servers[0]), time.Now()
				time.Sleep(2 * lease)
				now, took := statsOf(b, servers[0]), time.Since(began).Seconds()
				b.ReportMetric((now["cmdstat_evalsha"]-before["cmdstat_evalsha"])/took, "calls/s")
				b.ReportMetric((now["used_cpu_user"]+now["used_cpu_sys"]-before["used_cpu_user"]-before["used_cpu_sys"])/took*100, "redis-cpu-%")
				b.ReportMetric(now["connected_clients"]-start["connected_clients"], "connections")
				b.ReportMetric((now["used_memory_dataset"]-start["used_memory_dataset"])/1024/elections, "data-KiB/election")
				b.ReportMetric((now["used_memory"]-start["used_memory"])/1024/1024, "memory-MiB")
			}
		})
	}
}

// statsOf are the numbers in INFO, and of a command how often it was called.
func statsOf(b *testing.B, s *servertest.Server) map[string]float64 {
	b.Helper()
	stats := map[string]float64{}
	for line := range strings.Lines(fmt.Sprint(s.Do(b, "INFO", "everything"))) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		value, _, _ = strings.Cut(strings.TrimPrefix(value, "calls="), ",")
		if f, err := strconv.ParseFloat(value, 64); err == nil {
			stats[key] = f
		}
	}
	return stats
}

// use is what this process holds, and the processor time that it has taken.
type use struct {
	heap, stacks, goroutines float64
	cpu                      time.Duration
}

func held() use {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	var took syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &took)
	cpu := time.Duration(took.Utime.Nano() + took.Stime.Nano())
	return use{float64(m.HeapAlloc), float64(m.StackInuse), float64(runtime.NumGoroutine()), cpu}
}
