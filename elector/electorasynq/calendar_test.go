package electorasynq_test

import (
	"context"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	fork "github.com/netresearch/go-cron"
	"github.com/redis/go-redis/v9"
	"github.com/robfig/cron/v3"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electorasynq"
	"github.com/mandate-dev/mandate/elector/proof/calendar"
	"github.com/mandate-dev/mandate/elector/schedule"
)

// A spring with robfig/cron.
func TestCalendarOfCron(t *testing.T) {
	calendar.Test(t, "2026-03-01", 60, 300, crontab(t, func() scheduler[cron.Schedule] {
		c := cron.New()
		return scheduler[cron.Schedule]{cron.ParseStandard, func(s *schedule.Job, run func()) { c.Schedule(s, cron.FuncJob(run)) }, c.Start, func() { c.Stop() }}
	}))
}

// An autumn with its fork.
func TestCalendarOfGoCron(t *testing.T) {
	calendar.Test(t, "2026-10-20", 20, 100, crontab(t, func() scheduler[fork.Schedule] {
		c := fork.New()
		return scheduler[fork.Schedule]{fork.ParseStandard, func(s *schedule.Job, run func()) { c.Schedule(s, fork.FuncJob(run)) }, c.Start, func() { c.Stop() }}
	}))
}

// scheduler is robfig/cron or its fork.
type scheduler[S cron.Schedule] struct {
	parse       func(crontab string) (S, error)
	add         func(*schedule.Job, func())
	start, stop func()
}

func crontab[S cron.Schedule](t *testing.T, open func() scheduler[S]) calendar.Start {
	return func(ctx context.Context, e *elector.Elector, client redis.UniversalClient, jobs []calendar.Job, ran func(string, time.Time)) elector.Work {
		all, err := schedule.New(e, client)
		if err != nil {
			t.Fatal(err)
		}
		c := open()
		for _, j := range jobs {
			ticks, err := c.parse(j.Crontab)
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
			c.add(job, func() { _ = job.RunContext(ctx) })
		}
		c.start()
		context.AfterFunc(ctx, c.stop)
		return all.Work
	}
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

// stamp is a tick in a task.
var stamp = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:]{8}Z`)

// Days with asynq, whose tasks have their ticks in a header.
func TestCalendarOfAsynq(t *testing.T) {
	calendar.Test(t, "2026-09-20", 60, 300, func(ctx context.Context, e *elector.Elector, client redis.UniversalClient, jobs []calendar.Job, ran func(string, time.Time)) elector.Work {
		var tasks []electorasynq.Task
		for _, j := range jobs {
			tasks = append(tasks, electorasynq.Task{Spec: j.Crontab, Location: j.Location, Make: func(run schedule.Run) *asynq.Task {
				return asynq.NewTaskWithHeaders(j.Name, nil, map[string]string{"tick": run.Tick.UTC().Format(time.RFC3339)})
			}})
		}
		var mu sync.Mutex
		hooked := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
		context.AfterFunc(ctx, func() { _ = hooked.Close() })
		hooked.AddHook(queue{func(encoded string) {
			mu.Lock()
			defer mu.Unlock()
			for _, j := range jobs {
				if strings.Contains(encoded, j.Name) {
					tick, err := time.Parse(time.RFC3339, stamp.FindString(encoded))
					if err != nil {
						t.Error(err)
					}
					ran(j.Name, tick)
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
