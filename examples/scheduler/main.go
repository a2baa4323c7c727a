// Command scheduler runs jobs on one of its replicas, and each tick once. See README.md.
package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/schedule"
	"github.com/mandate-dev/mandate/examples/internal/cli"
)

const (
	usage = `scheduler [--redis URL] [flags]
Runs jobs every second on one of its replicas.`
	election = "scheduler-example"
)

func main() { cli.Main("scheduler", run) }

func run(ctx context.Context, args []string, stdin io.Reader, _, stderr io.Writer) error {
	f := cli.New(usage, stderr)
	id := f.String("id", "", "the candidate's name")
	count := f.Int("jobs", 3, "how many jobs there are")
	lease := f.Duration("lease", 10*time.Second, "the lease")
	ctx, err := f.Parse(ctx, args, stdin)
	if err != nil {
		return err
	}
	everySecond, err := withSeconds.Parse("* * * * * *")
	if err != nil {
		return err
	}
	quorum, err := elector.Open(f.RedisURLs()...)
	if err != nil {
		return err
	}
	defer quorum.Close()
	of, err := quorum.Election(election)
	if err != nil {
		return err
	}
	client, err := elector.NewClient(f.RedisURLs()[0])
	if err != nil {
		return err
	}
	defer client.Close()
	jobs, err := schedule.New(of, client)
	if err != nil {
		return err
	}
	do := func(ctx context.Context, run schedule.Run) error { // where your own work goes; it must stop when ctx ends
		f.Log.Info("running", "job", run.Job, "tick", run.Tick.Unix(), "by", *id)
		return ctx.Err()
	}
	for i := range *count {
		if err := jobs.Add(schedule.Job{Name: fmt.Sprintf("job-%d", i), Schedule: everySecond, Timeout: 10 * time.Second, Do: do}); err != nil {
			return err
		}
	}
	candidate, err := elector.New(quorum, elector.Config{Election: election, ID: *id, Lease: *lease, Logger: f.Log, WorkProbe: jobs.Probe(0)})
	if err != nil {
		return err
	}
	return candidate.Run(ctx, jobs.Work)
}

// withSeconds reads crontabs of six fields, the first one for seconds.
var withSeconds = cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)
