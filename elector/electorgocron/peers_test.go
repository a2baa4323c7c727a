package electorgocron_test

import (
	"context"
	"testing"
	"time"

	redislock "github.com/go-co-op/gocron-redis-lock/v2"
	"github.com/go-co-op/gocron/v2"
	"github.com/jonboulle/clockwork"
	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/proof/calendar"
)

// jumping is a clock as the calendar has it.
type jumping struct {
	clockwork.Clock
	of *elector.Elector
}

func (c jumping) Now() time.Time { return c.Clock.Now().Add(calendar.Ahead(c.of)) }

// What gocron's own means make of the calendar: a lock in Redis for each run, or an elector that knows no ticks.
func TestCalendarOfPeers(t *testing.T) {
	locks := func(_ *elector.Elector, client redis.UniversalClient) gocron.SchedulerOption {
		locker, err := redislock.NewRedisLocker(client, redislock.WithTries(1))
		if err != nil {
			t.Fatal(err)
		}
		return gocron.WithDistributedLocker(locker)
	}
	elects := func(e *elector.Elector, _ redis.UniversalClient) gocron.SchedulerOption {
		return gocron.WithDistributedElector(leads{e})
	}
	t.Run("lock, job of 50ms", func(t *testing.T) { calendar.Count(t, peers(t, 50*time.Millisecond, locks)) })
	t.Run("lock, job of 5s", func(t *testing.T) { calendar.Count(t, peers(t, 5*time.Second, locks)) })
	t.Run("elector", func(t *testing.T) { calendar.Count(t, peers(t, 5*time.Second, elects)) })
}

type leads struct{ e *elector.Elector }

func (l leads) IsLeader(context.Context) error {
	if !l.e.IsLeader() {
		return elector.ErrNotLeader
	}
	return nil
}

func peers(t *testing.T, work time.Duration, option func(*elector.Elector, redis.UniversalClient) gocron.SchedulerOption) calendar.Start {
	return func(ctx context.Context, e *elector.Elector, client redis.UniversalClient, jobs []calendar.Job, ran func(string, time.Time)) elector.Work {
		s, err := gocron.NewScheduler(gocron.WithClock(jumping{clockwork.NewRealClock(), e}), option(e, client))
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range jobs {
			if _, err := s.NewJob(gocron.CronJob("CRON_TZ="+j.Location.String()+" "+j.Crontab, false), gocron.NewTask(func() {
				ran(j.Name, j.Nearest(time.Now()))
				select {
				case <-ctx.Done(): // gocron's Shutdown spins while a job runs
				case <-time.After(work):
				}
			}), gocron.WithName(j.Name)); err != nil {
				t.Fatal(err)
			}
		}
		s.Start()
		context.AfterFunc(ctx, func() { _ = s.Shutdown() })
		return func(ctx context.Context, _ *elector.Term) error { <-ctx.Done(); return nil }
	}
}
