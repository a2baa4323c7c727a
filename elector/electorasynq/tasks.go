// Package electorasynq enqueues periodic asynq tasks on the leader only, and each tick of a schedule once: as package
// elector/schedule does, which says what becomes of ticks that nobody ran, and of nights in which the clock changes.
//
//	mail := electorasynq.Task{Spec: "0 12 * * *", Task: asynq.NewTask("mail", nil)}
//	tasks, err := electorasynq.New(e, client, queue, mail)
//	err = e.Run(ctx, tasks.Work)
//
// It takes the place of asynq's Scheduler, of which each replica would enqueue everything. The tick is taken before the task is
// enqueued, whatever becomes of that afterwards: its id, Retention and Unique are yours.
package electorasynq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/robfig/cron/v3"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/schedule"
)

// Task is a task that is enqueued on a schedule.
type Task struct {
	// Spec is a crontab of five fields, or a descriptor such as @daily, in Location or that of CRON_TZ=. @every 5m has its ticks at
	// multiples of five minutes.
	Spec     string
	Location *time.Location // nil: UTC
	Task     *asynq.Task
	// Make makes the task of each tick instead, so that its payload or headers can say which one it is (asynq.NewTaskWithHeaders).
	Make func(run schedule.Run) *asynq.Task
	// Name identifies the task's ticks in Redis; empty: the type of the task. No two tasks may have the same.
	Name    string
	Options []asynq.Option // as of Client.Enqueue
	Within  time.Duration  // how late a missed tick may be enqueued; 0: an hour
}

// Tasks are the periodic tasks of one elector's leader.
type Tasks struct {
	jobs  *schedule.Jobs
	tasks []*schedule.Job
}

// New returns the tasks of an elector. It refuses what can't be scheduled, on every replica. The ticks are kept in the Redis of the client, which
// must be the same for all replicas; queue is where the tasks go. New does no I/O.
func New(e *elector.Elector, client redis.UniversalClient, queue *asynq.Client, tasks ...Task) (*Tasks, error) {
	jobs, err := schedule.New(e, client)
	if err == nil && queue == nil {
		err = errors.New("electorasynq: the queue's client is nil")
	}
	if err != nil {
		return nil, err
	}
	all := &Tasks{jobs: jobs}
	for _, t := range tasks {
		job, err := t.add(jobs, queue)
		if err != nil {
			return nil, fmt.Errorf("electorasynq: %w", err)
		}
		all.tasks = append(all.tasks, job)
	}
	return all, nil
}

func (t Task) add(jobs *schedule.Jobs, queue *asynq.Client) (*schedule.Job, error) {
	if t.Make == nil {
		t.Make = func(schedule.Run) *asynq.Task { return t.Task }
	}
	sample := t.Make(schedule.Run{Job: t.Name, Tick: time.Now(), Token: 1})
	if sample == nil {
		return nil, fmt.Errorf("task %q has no Task", t.Name)
	}
	name := cmp.Or(t.Name, sample.Type())
	spec, location, err := schedule.SplitZone(t.Spec, t.Location)
	ticks, err2 := cron.ParseStandard(spec)
	if err = errors.Join(err, err2, t.try(sample)); err != nil {
		return nil, fmt.Errorf("task %q: %w", name, err)
	}
	return jobs.Add(schedule.Config{
		Name: name, Next: ticks.Next, Location: location, Within: t.Within,
		Do: func(ctx context.Context, run schedule.Run) error { return t.enqueue(ctx, queue, t.Make(run)) },
	})
}

// Work is the work of the elector. It returns when all that was being enqueued is, or the term's time is over. The queue may be
// away: a task that certainly was not enqueued is tried again, here or by the next leader.
func (t *Tasks) Work(ctx context.Context, term *elector.Term) error {
	c := cron.New(cron.WithLocation(time.UTC), cron.WithLogger(cron.DiscardLogger))
	for _, task := range t.tasks {
		c.Schedule(task, cron.FuncJob(func() { _ = task.RunContext(ctx) }))
	}
	c.Start()
	defer func() { <-c.Stop().Done() }()
	return t.jobs.Work(ctx, term)
}

// Check returns why ticks can't be taken at present, or nil.
func (t *Tasks) Check() error { return t.jobs.Check() }

// enqueue enqueues a task once. asynq's commands don't heed a context, so nothing waits for one that hangs when the term has ended.
func (t Task) enqueue(ctx context.Context, queue *asynq.Client, task *asynq.Task) error {
	done := make(chan error, 1)
	go func() {
		_, err := queue.EnqueueContext(context.WithoutCancel(ctx), task, t.Options...)
		done <- err
	}()
	select {
	case <-ctx.Done():
		return fmt.Errorf("the term ended while the task was being enqueued: %w", context.Cause(ctx))
	case err := <-done:
		if err != nil && notSent.MatchString(err.Error()) {
			err = errors.Join(err, schedule.ErrAgain)
		}
		return err
	}
}

// notSent matches the errors after which the queue certainly has not got the task: it could not be connected to, or has answered
// with an error, or its name could not be noted before. asynq hands on only their texts.
var notSent = regexp.MustCompile(`dial |SADD failed|redis eval error: [A-Z]+ `)

// try finds what is wrong with a task and its options: asynq looks at them before it sends anything.
func (t Task) try(sample *asynq.Task) error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}) // it is not connected to
	defer client.Close()
	_, err := asynq.NewClientFromRedisClient(client).EnqueueContext(ctx, sample, t.Options...)
	if strings.Contains(err.Error(), ctx.Err().Error()) {
		return nil
	}
	return err
}
