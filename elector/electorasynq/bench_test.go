package electorasynq_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electorasynq"
	"github.com/mandate-dev/mandate/elector/internal/hostclock"
	"github.com/mandate-dev/mandate/elector/proof/calendar"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

const (
	benchTasks   = 20
	benchMinutes = 2
)

// BenchmarkTicks counts how many ticks of twenty tasks, one a minute of each, are processed twice or not at all with three
// replicas whose clocks are 500 ms apart: with Work, whose leader resigns every 7 s; with an asynq.Scheduler in each replica;
// and with that and asynq.Unique. All at the same time, each on a real Redis of its own.
func BenchmarkTicks(b *testing.B) {
	for b.Loop() {
		var all sync.WaitGroup
		for name, start := range map[string]func(*trial, time.Duration){
			"mandate": (*trial).work, "schedulers": schedulers(), "unique": schedulers(asynq.Unique(30 * time.Second)),
		} {
			server := servertest.Redis(b)
			t := &trial{b: b, url: server.URL(), redis: asynq.RedisClientOpt{Addr: server.Addr()}, ran: map[string]int{}}
			all.Go(func() {
				doubled, lost := t.run(start)
				b.ReportMetric(float64(doubled), "doubled:"+name)
				b.ReportMetric(float64(lost), "lost:"+name)
			})
		}
		all.Wait()
		b.ReportMetric(benchTasks*benchMinutes, "ticks")
	}
}

// trial is one way to schedule, with a server that processes its tasks.
type trial struct {
	b     *testing.B
	url   string
	redis asynq.RedisClientOpt

	mu  sync.Mutex
	ran map[string]int // by task and minute
}

func (t *trial) run(start func(*trial, time.Duration)) (doubled, lost int) {
	server := asynq.NewServer(t.redis, asynq.Config{LogLevel: asynq.FatalLevel})
	if err := server.Start(asynq.HandlerFunc(t.process)); err != nil {
		t.b.Error(err)
		return 0, 0
	}
	defer server.Shutdown()
	for i := range 3 {
		start(t, time.Duration(i)*500*time.Millisecond)
	}
	first := time.Now().Add(5 * time.Second).Truncate(time.Minute).Add(time.Minute) // all have begun, and somebody leads
	time.Sleep(time.Until(first.Add((benchMinutes-1)*time.Minute + 10*time.Second)))
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range benchTasks {
		for m := range benchMinutes {
			switch n := t.ran[key(taskName(i), first.Add(time.Duration(m)*time.Minute))]; {
			case n == 0:
				lost++
			case n > 1:
				doubled++
			}
		}
	}
	return doubled, lost
}

func (t *trial) process(_ context.Context, task *asynq.Task) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ran[key(task.Type(), time.Now().Add(5*time.Second))]++ // a catch-up may be a second early
	return nil
}

func key(task string, at time.Time) string { return task + at.Format(" 15:04") }

func taskName(i int) string { return fmt.Sprint("task-", i) }

// behind makes a replica enqueue as if its clock were behind.
func behind(d time.Duration) *asynq.SchedulerOpts {
	return &asynq.SchedulerOpts{LogLevel: asynq.FatalLevel, PreEnqueueFunc: func(*asynq.Task, []asynq.Option) { time.Sleep(d) }}
}

func (t *trial) work(late time.Duration) {
	q, err := elector.Open(t.url)
	if err != nil {
		t.b.Error(err)
		return
	}
	id := fmt.Sprint("bench-", late)
	hostclock.Set(id, -late)
	client, err := elector.NewClient(t.url)
	if err != nil {
		t.b.Error(err)
		return
	}
	e, err := elector.New(q, elector.Config{Election: "reports", ID: id, Lease: 2 * time.Second, Cooldown: -1, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.b.Error(err)
		return
	}
	var tasks []electorasynq.Task
	for i := range benchTasks {
		tasks = append(tasks, electorasynq.Task{Spec: "* * * * *", Task: asynq.NewTask(taskName(i), nil)})
	}
	queue := asynq.NewClient(t.redis)
	all, err := electorasynq.New(e, client, queue, tasks...)
	if err != nil {
		t.b.Error(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := e.Run(ctx, all.Work); err != nil && !errors.Is(err, context.Canceled) {
			t.b.Error(err)
		}
	})
	running.Go(func() {
		for ctx.Err() == nil {
			time.Sleep(100 * time.Millisecond)
			if term := e.Term(); term != nil && time.Since(term.Since()) > 7*time.Second {
				term.Resign()
			}
		}
	})
	t.b.Cleanup(func() { cancel(); running.Wait(); _ = queue.Close(); _ = client.Close(); _ = q.Close() })
}

func schedulers(options ...asynq.Option) func(*trial, time.Duration) {
	return func(t *trial, late time.Duration) {
		s := asynq.NewScheduler(t.redis, behind(late))
		for i := range benchTasks {
			if _, err := s.Register("* * * * *", asynq.NewTask(taskName(i), nil), options...); err != nil {
				t.b.Error(err)
			}
		}
		if err := s.Start(); err != nil {
			t.b.Error(err)
		}
		t.b.Cleanup(s.Shutdown)
	}
}

// What asynq's own means make of the calendar: a Scheduler in each replica, with Unique. The tasks stay in the queue, so that Unique holds
// for all of its time.
func TestCalendarOfPeers(t *testing.T) {
	for name, options := range map[string][]asynq.Option{"plain": nil, "unique": {asynq.Unique(30 * time.Second)}} {
		t.Run(name, func(t *testing.T) {
			calendar.Count(t, func(ctx context.Context, e *elector.Elector, client redis.UniversalClient, jobs []calendar.Job, ran func(string, time.Time)) elector.Work {
				s := asynq.NewSchedulerFromRedisClient(client, &asynq.SchedulerOpts{
					LogLevel:       asynq.FatalLevel,
					PreEnqueueFunc: func(*asynq.Task, []asynq.Option) { time.Sleep(2*time.Second - calendar.Ahead(e)) },
					PostEnqueueFunc: func(info *asynq.TaskInfo, err error) {
						for _, j := range jobs {
							if err == nil && j.Name == info.Type {
								ran(j.Name, j.Nearest(time.Now().Add(-2*time.Second)))
							}
						}
					},
				})
				for _, j := range jobs {
					if _, err := s.Register("CRON_TZ="+j.Location.String()+" "+j.Crontab, asynq.NewTask(j.Name, nil), options...); err != nil {
						t.Fatal(err)
					}
				}
				if err := s.Start(); err != nil {
					t.Fatal(err)
				}
				context.AfterFunc(ctx, s.Shutdown)
				return func(ctx context.Context, _ *elector.Term) error { <-ctx.Done(); return nil }
			})
		})
	}
}
