package electorgocron_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	redislock "github.com/go-co-op/gocron-redis-lock/v2"
	"github.com/go-co-op/gocron/v2"
	"github.com/jonboulle/clockwork"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electorgocron"
	"github.com/mandate-dev/mandate/elector/internal/hostclock"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
	"github.com/mandate-dev/mandate/elector/schedule"
)

const (
	benchJobs = 5
	benchFor  = 20 * time.Second
)

// BenchmarkTicks counts how many ticks of five jobs, one a second of each, ran twice or not at all on three replicas whose
// clocks are 500 ms apart. The leader of NewJob resigns every 3 s; gocron's own redis locker, set up as its README has it,
// has no leader that could change.
func BenchmarkTicks(b *testing.B) {
	b.Run("electorgocron", func(b *testing.B) { measure(b, ours) })
	b.Run("gocron-redis-lock", func(b *testing.B) { measure(b, theirs) })
}

// clock is ahead of that of the test.
type clock struct {
	clockwork.Clock
	ahead time.Duration
}

func (c clock) Now() time.Time { return c.Clock.Now().Add(c.ahead) }

// replica is one process, with its clock.
type replica struct {
	clock
	id, redis string
	count     func(job string) func()
}

func ours(b *testing.B, r *replica) {
	q, err := elector.Open(r.redis)
	client, err2 := elector.NewClient(r.redis)
	if err != nil || err2 != nil {
		b.Fatal(err, err2)
	}
	e, err := elector.New(q, elector.Config{Election: "reports", ID: r.id, Lease: 2 * time.Second, Cooldown: -1, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	jobs, err := schedule.New(e, client)
	s, err2 := gocron.NewScheduler()
	if err != nil || err2 != nil {
		b.Fatal(err, err2)
	}
	hostclock.Set(r.id, r.ahead)
	for i := range benchJobs {
		name := fmt.Sprint("job-", i)
		count := r.count(name)
		do := func(context.Context, schedule.Run) error { count(); return nil }
		if _, err := electorgocron.NewJob(jobs, s, gocron.CronJob("* * * * * *", true), schedule.Config{Name: name, Do: do}); err != nil {
			b.Fatal(err)
		}
	}
	s.Start()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = e.Run(ctx, jobs.Work) })
	running.Go(func() {
		for ctx.Err() == nil {
			time.Sleep(100 * time.Millisecond)
			if t := e.Term(); t != nil && time.Since(t.Since()) > 3*time.Second {
				t.Resign()
			}
		}
	})
	b.Cleanup(func() { cancel(); running.Wait(); _ = s.Shutdown(); _ = client.Close(); _ = q.Close() })
}

func theirs(b *testing.B, r *replica) {
	client, err := elector.NewClient(r.redis)
	if err != nil {
		b.Fatal(err)
	}
	locker, err := redislock.NewRedisLocker(client, redislock.WithTries(1))
	s, err2 := gocron.NewScheduler(gocron.WithClock(r), gocron.WithDistributedLocker(locker))
	if err != nil || err2 != nil {
		b.Fatal(err, err2)
	}
	for i := range benchJobs {
		name := fmt.Sprint("job-", i)
		if _, err := s.NewJob(gocron.CronJob("* * * * * *", true), gocron.NewTask(r.count(name)), gocron.WithName(name)); err != nil {
			b.Fatal(err)
		}
	}
	s.Start()
	b.Cleanup(func() { _ = s.Shutdown(); _ = client.Close() })
}

func measure(b *testing.B, start func(*testing.B, *replica)) {
	for b.Loop() {
		server := servertest.Redis(b)
		var mu sync.Mutex
		ran := map[string]int{} // by job and tick, of which each replica is sure: jobs begin within half a second
		for i, ahead := range []time.Duration{-500 * time.Millisecond, 0, 500 * time.Millisecond} {
			r := &replica{clock: clock{clockwork.NewRealClock(), ahead}, id: fmt.Sprint(i), redis: server.URL()}
			r.count = func(job string) func() {
				return func() {
					tick := r.Now().Add(250 * time.Millisecond).Unix()
					time.Sleep(50 * time.Millisecond)
					mu.Lock()
					ran[fmt.Sprint(job, " ", tick)]++
					mu.Unlock()
				}
			}
			start(b, r)
		}
		first := time.Now().Add(3 * time.Second).Unix() // all have begun
		time.Sleep(3*time.Second + benchFor)
		mu.Lock()
		doubled, lost := 0, 0
		last := time.Now().Unix() - 2
		for job := range benchJobs {
			for tick := first; tick <= last; tick++ {
				switch n := ran[fmt.Sprint("job-", job, " ", tick)]; {
				case n == 0:
					lost++
				case n > 1:
					doubled++
				}
			}
		}
		mu.Unlock()
		b.ReportMetric(float64(benchJobs*int(last-first+1)), "ticks")
		b.ReportMetric(float64(doubled), "doubled")
		b.ReportMetric(float64(lost), "lost")
	}
}
