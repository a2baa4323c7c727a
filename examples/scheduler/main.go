// Command scheduler runs the jobs of a crontab on one of its replicas, and each tick once. See README.md.
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

const usage = `scheduler [--redis URL] [flags]
Runs jobs every second on one of its replicas.`

func main() { cli.Main("scheduler", run) }

func run(ctx context.Context, args []string, stdin io.Reader, _, stderr io.Writer) error {
	f := cli.New(usage, stderr)
	id := f.String("id", "", "the candidate's name")
	jobs := f.Int("jobs", 3, "how many jobs there are")
	lease := f.Duration("lease", 10*time.Second, "the lease")
	ahead := f.Duration("clock", 0, "how far the timers of this replica are ahead, to try it out")
	ctx, err := f.Parse(ctx, args, stdin)
	if err != nil {
		return err
	}
	quorum, err := elector.Open(f.RedisURLs()...)
	if err != nil {
		return err
	}
	defer quorum.Close()
	candidate, err := elector.New(quorum, elector.Config{Election: "scheduler-example", ID: *id, Lease: *lease, Logger: f.Log})
	if err != nil {
		return err
	}
	client, err := elector.NewClient(f.RedisURLs()[0])
	if err != nil {
		return err
	}
	defer client.Close()
	ticks, err := schedule.New(candidate, client)
	if err != nil {
		return err
	}
	crontab := cron.New()
	everySecond, err := withSeconds.Parse("* * * * * *")
	if err != nil {
		return err
	}
	for i := range *jobs {
		job, err := ticks.Add(schedule.Config{
			Name: fmt.Sprintf("job-%d", i),
			Next: everySecond.Next,
			Do: func(ctx context.Context, run schedule.Run) error { // where your own work goes; it must stop when ctx ends
				f.Log.Info("running", "job", run.Job, "tick", run.Tick.Unix(), "by", *id)
				return ctx.Err()
			},
		})
		if err != nil {
			return err
		}
		crontab.Schedule(shifted{job, *ahead}, job)
	}
	crontab.Start()
	defer func() { <-crontab.Stop().Done() }()
	return candidate.Run(ctx, ticks.Work)
}

// withSeconds reads crontabs of six fields, the first one for seconds.
var withSeconds = cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

// shifted is a schedule on a clock that is ahead.
type shifted struct {
	cron.Schedule
	ahead time.Duration
}

func (s shifted) Next(t time.Time) time.Time { return s.Schedule.Next(t.Add(s.ahead)).Add(-s.ahead) }
