package electorgocron_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electorgocron"
	"github.com/mandate-dev/mandate/elector/electortest"
	"github.com/mandate-dev/mandate/elector/internal/hostclock"
	"github.com/mandate-dev/mandate/elector/proof/calendar"
	"github.com/mandate-dev/mandate/elector/schedule"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestEachTickRunsOnce: a job per second runs once per second, although clocks differ by up to a second and the leader changes all
// the time; and the release waits for the job.
func TestEachTickRunsOnce(t *testing.T) {
	electortest.Test(t, func(t *testing.T, r *electortest.Redis) {
		s := &stage{t: t}
		for i, ahead := range []time.Duration{-500 * time.Millisecond, 0, 500 * time.Millisecond} {
			id := fmt.Sprint("once-", i)
			hostclock.Set(id, ahead)
			t.Cleanup(func() { hostclock.Set(id, 0) })
			s.start(r.Quorum(id), r.Client(id), id, func(jobs *schedule.Jobs, scheduler gocron.Scheduler, e *elector.Elector) {
				s.add(jobs, scheduler, e, "mail", gocron.CronJob("* * * * * *", true))
			})
		}
		const changes = 60
		for range changes {
			time.Sleep(1700 * time.Millisecond)
			if e := s.leader(); e != nil {
				_ = e.Resign(context.Background())
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		ticks := s.ran["mail"]
		seen := map[time.Time]bool{}
		for _, tick := range ticks {
			if seen[tick] || !tick.Equal(tick.Truncate(time.Second)) {
				t.Errorf("the tick %v ran twice, or is none of the schedule", tick)
			}
			seen[tick] = true
		}
		for tick := ticks[0]; tick.Before(ticks[len(ticks)-1]); tick = tick.Add(time.Second) {
			if !seen[tick] {
				t.Errorf("the tick %v is lost: %v ran", tick, ticks)
			}
		}
		if want := int(1.7*changes) - 3; len(ticks) < want {
			t.Errorf("%d ticks ran, at least %d were due", len(ticks), want)
		}
	})
}

// stage is what the replicas of a test share.
type stage struct {
	t     *testing.T
	lease time.Duration // 0: 2 s

	mu  sync.Mutex
	all []*elector.Elector
	ran map[string][]time.Time // by job, in their order
}

// note notes a tick whose job is about to return.
func (s *stage) note(by *elector.Elector, run schedule.Run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.all {
		if e != by && e.IsLeader() {
			s.t.Error("another one leads while a job runs")
		}
	}
	if s.ran == nil {
		s.ran = map[string][]time.Time{}
	}
	s.ran[run.Job] = append(s.ran[run.Job], run.Tick)
}

// start starts a replica, with a scheduler of its own. The jobs are those of add.
func (s *stage) start(q *elector.Quorum, client redis.UniversalClient, id string, add func(*schedule.Jobs, gocron.Scheduler, *elector.Elector), options ...gocron.SchedulerOption) *schedule.Jobs {
	t := s.t
	t.Helper()
	e, err := elector.New(q, elector.Config{Election: "reports", ID: id, Lease: cmp.Or(s.lease, 2*time.Second), Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.all = append(s.all, e)
	s.mu.Unlock()
	jobs, err := schedule.New(e, client)
	if err != nil {
		t.Fatal(err)
	}
	scheduler, err := gocron.NewScheduler(options...)
	if err != nil {
		t.Fatal(err)
	}
	add(jobs, scheduler, e)
	scheduler.Start()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = e.Run(ctx, jobs.Work) })
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		if err := scheduler.Shutdown(); err != nil {
			t.Error(err)
		}
	})
	return jobs
}

func (s *stage) leader() *elector.Elector {
	for _, e := range s.all {
		if e.IsLeader() {
			return e
		}
	}
	return nil
}

// add adds a job that notes its ticks.
func (s *stage) add(jobs *schedule.Jobs, scheduler gocron.Scheduler, e *elector.Elector, name string, when gocron.JobDefinition) {
	if _, err := electorgocron.NewJob(jobs, scheduler, when, schedule.Config{Name: name, Do: func(_ context.Context, run schedule.Run) error {
		time.Sleep(50 * time.Millisecond)
		s.note(e, run)
		return nil
	}}); err != nil {
		s.t.Fatal(err)
	}
}

// Jobs of all kinds run in the scheduler's location, at the times that gocron gives them, and once on two replicas.
func TestKindsOfJobs(t *testing.T) {
	tokyo := time.FixedZone("JST", 9*3600)
	at := gocron.NewAtTimes(gocron.NewAtTime(12, 30, 0), gocron.NewAtTime(3, 0, 0))
	kinds := map[string]struct {
		when gocron.JobDefinition
		want []string // of two days
	}{
		"cron":     {gocron.CronJob("0 12 * * *", false), []string{"01 12:00:00", "02 12:00:00"}},
		"zone":     {gocron.CronJob("CRON_TZ=Europe/Berlin 0 12 * * *", false), []string{"01 20:00:00", "02 20:00:00"}},
		"daily":    {gocron.DailyJob(1, at), []string{"01 12:30:00", "02 03:00:00", "02 12:30:00", "03 03:00:00"}},
		"weekly":   {gocron.WeeklyJob(1, gocron.NewWeekdays(time.Sunday, time.Saturday), gocron.NewAtTimes(gocron.NewAtTime(12, 0, 0))), []string{"01 12:00:00", "02 12:00:00"}},
		"monthly":  {gocron.MonthlyJob(1, gocron.NewDaysOfTheMonth(2), gocron.NewAtTimes(gocron.NewAtTime(12, 0, 0))), []string{"02 12:00:00"}},
		"duration": {gocron.DurationJob(12 * time.Hour), []string{"01 21:00:00", "02 09:00:00", "02 21:00:00"}},
		"odd":      {gocron.DurationJob(7 * time.Hour), []string{"01 15:00:00", "01 22:00:00", "02 05:00:00", "02 12:00:00", "02 19:00:00", "03 02:00:00"}},
		"every":    {gocron.CronJob("@every 20h", false), []string{"01 13:00:00", "02 09:00:00", "03 05:00:00"}},
	}
	electortest.Test(t, func(t *testing.T, r *electortest.Redis) { // from 9:00 in Tokyo on, a Saturday
		time.Sleep(10 * time.Minute)
		s := &stage{t: t, lease: 20 * time.Minute}
		for _, id := range []string{"a", "b"} {
			s.start(r.Quorum(id), r.Client(id), id, func(jobs *schedule.Jobs, scheduler gocron.Scheduler, e *elector.Elector) {
				for name, k := range kinds {
					s.add(jobs, scheduler, e, name, k.when)
				}
			}, gocron.WithLocation(tokyo))
		}
		time.Sleep(47 * time.Hour)
		s.mu.Lock()
		defer s.mu.Unlock()
		for name, k := range kinds {
			var got []string
			for _, tick := range s.ran[name] {
				got = append(got, tick.In(tokyo).Format("02 15:04:05"))
			}
			if fmt.Sprint(got) != fmt.Sprint(k.want) {
				t.Errorf("%s: %v, want %v", name, got, k.want)
			}
		}
	})
}

// In the night that has an hour twice a job runs once, whatever the scheduler's location, and although the leader changes in that hour.
func TestNightWithAnHourTwice(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, location := range []*time.Location{time.UTC, berlin} {
		electortest.Test(t, func(t *testing.T, r *electortest.Redis) {
			time.Sleep(time.Until(time.Date(2000, 10, 28, 23, 0, 0, 0, time.UTC)))
			s := &stage{t: t, lease: 5 * time.Minute}
			for _, id := range []string{"a", "b"} {
				s.start(r.Quorum(id), r.Client(id), id, func(jobs *schedule.Jobs, scheduler gocron.Scheduler, e *elector.Elector) {
					s.add(jobs, scheduler, e, "night", gocron.CronJob("CRON_TZ=Europe/Berlin 30 2 * * *", false))
					s.add(jobs, scheduler, e, "hourly", gocron.CronJob("CRON_TZ=Europe/Berlin 30 * * * *", false))
					s.add(jobs, scheduler, e, "daily", gocron.DailyJob(1, gocron.NewAtTimes(gocron.NewAtTime(2, 30, 0))))
				}, gocron.WithLocation(location))
			}
			for range 12 {
				time.Sleep(17 * time.Minute)
				if e := s.leader(); e != nil {
					_ = e.Resign(context.Background())
				}
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if ran := s.ran["night"]; len(ran) != 1 || !ran[0].Equal(time.Date(2000, 10, 29, 0, 30, 0, 0, time.UTC)) {
				t.Errorf("scheduler in %v: 02:30 ran at %v", location, ran)
			}
			if ran := s.ran["daily"]; len(ran) != 1 && location == berlin {
				t.Errorf("scheduler in %v: a DailyJob ran at %v", location, ran)
			}
			if ran := s.ran["hourly"]; len(ran) != 3 {
				t.Errorf("scheduler in %v: every hour ran at %v", location, ran)
			}
		})
	}
}

// A job that is added while this process leads is known from then on: its first tick is not lost with the term.
func TestJobIsAddedInATerm(t *testing.T) {
	electortest.Test(t, func(t *testing.T, r *electortest.Redis) {
		s := &stage{t: t, lease: 20 * time.Second}
		later := map[*elector.Elector]func(){}
		for _, id := range []string{"a", "b"} {
			s.start(r.Quorum(id), r.Client(id), id, func(jobs *schedule.Jobs, scheduler gocron.Scheduler, e *elector.Elector) {
				later[e] = func() { s.add(jobs, scheduler, e, "mail", gocron.CronJob("* * * * *", false)) }
			})
		}
		time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(90 * time.Second)))
		for _, add := range later {
			add()
		}
		time.Sleep(29900 * time.Millisecond)
		heal := r.CutOff()
		time.Sleep(200 * time.Millisecond) // the tick is due
		go func() { _ = s.leader().Resign(context.Background()) }()
		time.Sleep(time.Second)
		heal()
		time.Sleep(50 * time.Second)
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.ran["mail"]) != 1 {
			t.Errorf("%v", s.ran)
		}
	})
}

// What gocron lets one do with jobs: remove and add again, disable the locker, give the scheduler another elector. A tick runs once.
func TestJobsOfGocron(t *testing.T) {
	electortest.Test(t, func(t *testing.T, r *electortest.Redis) {
		s := &stage{t: t}
		var first, elected gocron.Job
		var scheduler gocron.Scheduler
		var by *elector.Elector
		jobs := s.start(r.Quorum("a"), r.Client("a"), "a", func(jobs *schedule.Jobs, own gocron.Scheduler, e *elector.Elector) {
			scheduler, by = own, e
			var err error
			first, err = electorgocron.NewJob(jobs, own, gocron.CronJob("0 * * * *", false), schedule.Config{Name: "mail", Do: func(context.Context, schedule.Run) error { return nil }})
			if err != nil {
				t.Fatal(err)
			}
			elected, err = electorgocron.NewJob(jobs, own, gocron.CronJob("* * * * *", false), schedule.Config{Name: "elected", Do: func(_ context.Context, run schedule.Run) error { s.note(e, run); return nil }},
				gocron.WithDisabledDistributedJobLocker(true))
			if err != nil {
				t.Fatal(err)
			}
		})
		if err := scheduler.RemoveJob(first.ID()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		s.add(jobs, scheduler, by, "mail", gocron.CronJob("* * * * *", false))
		time.Sleep(5 * time.Minute)
		for range 3 {
			if err := elected.RunNow(); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(40 * time.Second)
		for _, job := range scheduler.Jobs() {
			_ = job.RunNow() // it waits for the next tick, and the end of the term does not wait for that
		}
		time.Sleep(time.Second)
		began := time.Now()
		_ = by.Resign(context.Background())
		if took := time.Since(began); took > 200*time.Millisecond {
			t.Errorf("the end of the term took %v", took)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.ran["mail"]) != 5 || len(s.ran["elected"]) != 5 {
			t.Errorf("%v", s.ran)
		}
	})
}

func TestBadJobs(t *testing.T) {
	electortest.Test(t, func(t *testing.T, r *electortest.Redis) {
		s := &stage{t: t}
		do := func(context.Context, schedule.Run) error { return nil }
		noon := gocron.NewAtTimes(gocron.NewAtTime(12, 0, 0))
		s.start(r.Quorum("a"), r.Client("a"), "a", func(jobs *schedule.Jobs, scheduler gocron.Scheduler, _ *elector.Elector) {
			for _, k := range []struct {
				name, says string
				when       gocron.JobDefinition
			}{
				{"mail", "", gocron.CronJob("* * * * *", false)},
				{"mail", "two jobs", gocron.CronJob("* * * * *", false)},
				{"bad", "above maximum", gocron.CronJob("61 * * * *", false)},
				{"bad", "empty spec", gocron.CronJob("TZ=UTC", false)},
				{"bad", "unknown time zone", gocron.CronJob("TZ=Europe/Atlantis 1 * * * *", false)},
				{"", "name", gocron.CronJob("* * * * *", false)},
				{"mail {eu}", "braces", gocron.CronJob("* * * * *", false)},
				{"mail\t", "printable", gocron.DurationJob(time.Hour)},
				{"bad", "use a CronJob", gocron.DailyJob(2, noon)},
				{"bad", "use a CronJob", gocron.MonthlyJob(1, gocron.NewDaysOfTheMonth(-1), noon)},
				{"bad", "use a CronJob", gocron.DurationRandomJob(time.Minute, time.Hour)},
				{"bad", "use a CronJob", gocron.OneTimeJob(gocron.OneTimeJobStartImmediately())},
				{"mail2", "", gocron.DailyJob(1, noon)},
			} {
				_, err := electorgocron.NewJob(jobs, scheduler, k.when, schedule.Config{Name: k.name, Do: do})
				if k.says == "" && err != nil || k.says != "" && (err == nil || !strings.Contains(err.Error(), k.says)) {
					t.Errorf("%s, %s: %v", k.name, k.says, err)
				}
			}
			if n := len(scheduler.Jobs()); n != 2 {
				t.Errorf("%d jobs are left", n)
			}
		})
	})
}

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
