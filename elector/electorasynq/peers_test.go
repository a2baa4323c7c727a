package electorasynq_test

import (
	"context"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/proof/calendar"
)

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
