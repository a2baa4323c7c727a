// Package electorasynq enqueues periodic asynq tasks on the leader only, and each tick of a schedule once.
//
//	mail := electorasynq.Task{Spec: "0 12 * * *", Task: asynq.NewTask("mail", nil)}
//	err := e.Run(ctx, electorasynq.Work(asynq.RedisClientOpt{Addr: addr}, nil, mail))
//
// An asynq.Scheduler in each replica enqueues everything several times, and one that has been stopped can't be started
// again: [Work] makes one for each term. The id of a task is made of the ideal time of its tick, so that
// asynq refuses the same tick from the next leader, whose clock may be behind, and from one that was suspended.
package electorasynq

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"
	"github.com/robfig/cron/v3"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/fence"
)

// Task is a task that is enqueued on a schedule.
type Task struct {
	// Spec is a crontab of five fields, or a descriptor such as @daily, in the scheduler's Location. Durations
	// (@every) are refused: they count from when a process began, so that a tick has no ideal time.
	Spec string
	Task *asynq.Task
	// Name identifies the task in its ids; empty: the type of the task. No two tasks may have the same.
	Name string
	// Options are those of asynq's Register. A TaskID is replaced; a Retention is raised to the time to the next
	// tick, because asynq recognizes a task for as long as it is retained.
	Options []asynq.Option
	// CatchUp enqueues the latest tick when a term begins, unless that has been done: nobody led when it was due.
	// Earlier ones are missed.
	CatchUp bool
}

// Work returns the work of an elector: it runs an asynq.Scheduler for as long as the term, and returns when all
// that was being enqueued is. Its options may be nil. asynq's PostEnqueueFunc also gets the ticks that had been
// enqueued before: errors.Is(err, asynq.ErrTaskIDConflict). Work fails, which ends the term, if a task can't be registered.
func Work(redis asynq.RedisConnOpt, options *asynq.SchedulerOpts, tasks ...Task) elector.Work {
	return func(ctx context.Context, _ *elector.Term) error {
		own := asynq.SchedulerOpts{}
		if options != nil {
			own = *options
		}
		if own.Location == nil {
			own.Location = time.UTC // as asynq has it
		}
		entries, err := plan(tasks, own.Location)
		if err != nil {
			return err
		}
		before := own.PreEnqueueFunc
		own.PreEnqueueFunc = func(task *asynq.Task, options []asynq.Option) {
			if e := entries[task]; e != nil {
				e.name(options, time.Now())
			}
			if before != nil {
				before(task, options)
			}
		}
		return run(ctx, redis, &own, entries)
	}
}

func run(ctx context.Context, redis asynq.RedisConnOpt, options *asynq.SchedulerOpts, entries map[*asynq.Task]*entry) error {
	s := asynq.NewScheduler(redis, options)
	for _, e := range entries {
		if _, err := s.Register(e.Spec, e.Task.Task, e.options()...); err != nil {
			return fmt.Errorf("electorasynq: task %s: %w", e.Name, err)
		}
	}
	if err := s.Start(); err != nil {
		return err
	}
	defer s.Shutdown()
	if err := catchUp(ctx, redis, entries); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// catchUp enqueues the latest ticks; asynq refuses those that it knows.
func catchUp(ctx context.Context, redis asynq.RedisConnOpt, entries map[*asynq.Task]*entry) error {
	client := asynq.NewClient(redis)
	defer client.Close()
	for _, e := range entries {
		options := e.options()
		if !e.CatchUp || !e.name(options, time.Now()) {
			continue
		}
		if _, err := client.EnqueueContext(ctx, e.Task.Task, options...); err != nil && !errors.Is(err, asynq.ErrTaskIDConflict) {
			return fmt.Errorf("electorasynq: catching up with %s: %w", e.Name, err)
		}
	}
	return nil
}

// entry is a task of a running scheduler.
type entry struct {
	Task
	schedule cron.Schedule
	location *time.Location
}

// plan checks the tasks.
func plan(tasks []Task, location *time.Location) (map[*asynq.Task]*entry, error) {
	entries, names := map[*asynq.Task]*entry{}, map[string]bool{}
	for _, t := range tasks {
		if t.Task == nil {
			return nil, errors.New("electorasynq: a Task without a task")
		}
		if t.Name == "" {
			t.Name = t.Task.Type()
		}
		schedule, err := cron.ParseStandard(t.Spec)
		if err != nil {
			return nil, fmt.Errorf("electorasynq: task %s: %w", t.Name, err)
		}
		if _, ok := schedule.(cron.ConstantDelaySchedule); ok {
			return nil, fmt.Errorf("electorasynq: task %s: %s counts from when this process began, and differs on each replica: write a crontab", t.Name, t.Spec)
		}
		if names[t.Name] || entries[t.Task] != nil {
			return nil, fmt.Errorf("electorasynq: two tasks are called %s: give each a Name and a task of its own", t.Name)
		}
		names[t.Name], entries[t.Task] = true, &entry{Task: t, schedule: schedule, location: location}
	}
	return entries, nil
}

// options returns the options of the task, with room for what name sets, at the end: asynq takes the last of a kind.
func (e *entry) options() []asynq.Option {
	return append(append([]asynq.Option(nil), e.Options...), asynq.Retention(0), asynq.TaskID(e.Name))
}

// name sets the id of the latest tick, and how long it is known. It reports whether there is such a tick.
func (e *entry) name(options []asynq.Option, now time.Time) bool {
	tick, err := fence.Latest(e.schedule.Next, now.In(e.location))
	if err != nil || len(options) < 2 {
		return false
	}
	keep := tick.Every + time.Minute
	for _, o := range e.Options {
		if d, ok := o.Value().(time.Duration); ok && o.Type() == asynq.RetentionOpt {
			keep = max(keep, d)
		}
	}
	options[len(options)-2], options[len(options)-1] = asynq.Retention(keep), asynq.TaskID(fmt.Sprintf("%s:%d", e.Name, tick.At.Unix()))
	return true
}
