package electorgocron_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electorgocron"
	"github.com/mandate-dev/mandate/elector/proof/calendar"
	"github.com/mandate-dev/mandate/elector/schedule"
)

// Days with gocron, whose scheduler is in another zone than the jobs.
func TestCalendarOfGocron(t *testing.T) {
	calendar.Test(t, "2026-09-20", 60, 300, func(ctx context.Context, e *elector.Elector, client redis.UniversalClient, jobs []calendar.Job, ran func(string, time.Time)) elector.Work {
		all, err := schedule.New(e, client)
		if err != nil {
			t.Fatal(err)
		}
		scheduler, err := gocron.NewScheduler(gocron.WithLocation(jobs[0].Location))
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range jobs {
			if _, err := electorgocron.NewJob(all, scheduler, gocron.CronJob("CRON_TZ="+j.Location.String()+" "+j.Crontab, false), schedule.Config{Name: j.Name, Do: func(_ context.Context, run schedule.Run) error {
				ran(run.Job, run.Tick)
				return nil
			}}); err != nil {
				t.Fatal(err)
			}
		}
		scheduler.Start()
		context.AfterFunc(ctx, func() { _ = scheduler.Shutdown() })
		return all.Work
	})
}
