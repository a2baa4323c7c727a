package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/robfig/cron/v3"
	"golang.org/x/sync/errgroup"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/schedule"
	"github.com/mandate-dev/mandate/health"
)

// scheduled runs jobs on the leader, and each tick once, beside work of its own.
func scheduled(ctx context.Context, q *elector.Quorum) error {
	election, err := q.Election("nightly")
	if err != nil {
		return err
	}
	client, err := elector.NewClient(redisURL) // keeps the ticks
	if err != nil {
		return err
	}
	defer client.Close()
	all, err := schedule.New(election, client)
	if err != nil {
		return err
	}
	everySecond, err := cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow).Parse("* * * * * *")
	if err != nil {
		return err
	}
	for i := range jobs {
		job := schedule.Job{Name: fmt.Sprint("job-", i), Schedule: everySecond, Timeout: 10 * time.Second, Do: do}
		if err := all.Add(job); err != nil {
			return err
		}
	}
	beat := health.NewHeartbeat(10 * time.Second)
	// A job that hangs ends the term, and so does the work beside it.
	e, err := elector.New(q, elector.Config{Election: "nightly", ID: id, Lease: lease, WorkProbe: health.All(all.Probe(0), beat)})
	if err != nil {
		return err
	}
	return e.Run(ctx, beside(all.Work, loop(beat, step)))
}

// do is your own job. It must stop when ctx ends.
func do(ctx context.Context, run schedule.Run) error {
	slog.Info("running", "job", run.Job, "tick", run.Tick.Unix(), "token", run.Token, "by", id)
	return ctx.Err()
}

// beside does both in one term. When either ends, so does the other.
func beside(jobs, work elector.Work) elector.Work {
	return func(ctx context.Context, term *elector.Term) error {
		ctx, cancel := context.WithCancel(ctx)
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() error { defer cancel(); return jobs(ctx, term) })
		group.Go(func() error { defer cancel(); return work(ctx, term) })
		return group.Wait()
	}
}
