package electorasynq_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/robfig/cron/v3"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electorasynq"
	"github.com/mandate-dev/mandate/elector/proof/calendar"
	"github.com/mandate-dev/mandate/elector/schedule"
)

// A year with robfig/cron.
func TestCalendarOfCron(t *testing.T) {
	calendar.Test(t, "2026-03-01", 60, 300, func(ctx context.Context, e *elector.Elector, client redis.UniversalClient, jobs []calendar.Job, ran func(string, time.Time)) elector.Work {
		all, err := schedule.New(e, client)
		if err != nil {
			t.Fatal(err)
		}
		c := cron.New()
		for _, j := range jobs {
			ticks, err := cron.ParseStandard(j.Crontab)
			if err != nil {
				t.Fatal(err)
			}
			job, err := all.Add(schedule.Config{Name: j.Name, Next: ticks.Next, Location: j.Location, Do: func(_ context.Context, run schedule.Run) error {
				ran(run.Job, run.Tick)
				return nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			c.Schedule(job, cron.FuncJob(func() { _ = job.RunContext(ctx) }))
		}
		c.Start()
		context.AfterFunc(ctx, func() { c.Stop() })
		return all.Work
	})
}

// queue takes all tasks, and says when each was enqueued.
type queue struct {
	got func(payload string)
}

func (queue) DialHook(next redis.DialHook) redis.DialHook { return next }

func (q queue) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		if c, ok := cmd.(*redis.Cmd); ok && strings.HasPrefix(cmd.Name(), "eval") {
			for _, arg := range cmd.Args() {
				if encoded, ok := arg.([]byte); ok {
					q.got(string(encoded))
				}
			}
			c.SetVal(int64(1))
		}
		return nil
	}
}

func (queue) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// Days with asynq, whose tasks do not know their ticks: it is the newest that was due.
func TestCalendarOfAsynq(t *testing.T) {
	calendar.Test(t, "2026-09-20", 60, 300, func(ctx context.Context, e *elector.Elector, client redis.UniversalClient, jobs []calendar.Job, ran func(string, time.Time)) elector.Work {
		var tasks []electorasynq.Task
		for _, j := range jobs {
			tasks = append(tasks, electorasynq.Task{Spec: j.Crontab, Location: j.Location, Task: asynq.NewTask(j.Name, nil)})
		}
		var mu sync.Mutex
		hooked := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
		context.AfterFunc(ctx, func() { _ = hooked.Close() })
		hooked.AddHook(queue{func(encoded string) {
			mu.Lock()
			defer mu.Unlock()
			for _, j := range jobs {
				if strings.Contains(encoded, j.Name) {
					ran(j.Name, j.Newest(time.Now().Add(3*time.Second)))
				}
			}
		}})
		all, err := electorasynq.New(e, client, asynq.NewClientFromRedisClient(hooked), tasks...)
		if err != nil {
			t.Fatal(err)
		}
		return all.Work
	})
}
