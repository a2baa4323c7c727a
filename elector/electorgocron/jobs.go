// Package electorgocron runs the jobs of a gocron scheduler on the leader only, and each tick of a job once: as package
// elector/schedule does, which says what becomes of ticks that nobody ran, and of nights in which the clock changes.
//
//	jobs, err := schedule.New(e, client)
//	_, err = electorgocron.NewJob(jobs, scheduler, gocron.CronJob("0 12 * * *", false), schedule.Config{Name: "mail", Do: sendMail})
//	scheduler.Start()
//	err = e.Run(ctx, jobs.Work)
package electorgocron

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/robfig/cron/v3"

	"github.com/mandate-dev/mandate/elector/schedule"
)

// NewJob adds a job to a scheduler: a CronJob, in the scheduler's location or that of CRON_TZ=; a DailyJob, WeeklyJob or MonthlyJob with the
// interval 1; or a DurationJob, whose ticks are the multiples of it since the year 1. gocron gets a CronJob with these ticks. Other jobs,
// whose ticks count from when the process began, are refused. What the Config says of ticks and scheduler is set here.
// To change a job use RemoveJob and NewJob: Update would make it a plain job of every replica. RunNow runs the newest tick, if it is free.
func NewJob(jobs *schedule.Jobs, s gocron.Scheduler, when gocron.JobDefinition, c schedule.Config, options ...gocron.JobOption) (gocron.Job, error) {
	l := &locker{jobs: jobs, Config: c, ready: make(chan struct{})}
	l.Late, l.Gone = l.runNow, l.gone
	defer close(l.ready)
	options = append(options, gocron.WithName(c.Name), gocron.WithDistributedJobLocker(l), gocron.WithCronImplementation(l))
	job, err := s.NewJob(when, gocron.NewTask(l.run), options...)
	if err == nil && l.job == nil { // no CronJob: gocron has not asked IsValid
		_ = s.RemoveJob(job.ID())
		if err = l.add(job.Schedule()); err == nil {
			job, err = s.NewJob(gocron.CronJob("", false), gocron.NewTask(l.run), options...)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("electorgocron: job %.40q: %w", c.Name, err)
	}
	l.gocron = job
	return job, nil
}

// locker is the gocron.Locker and the gocron.Cron of one job.
type locker struct {
	schedule.Config
	jobs   *schedule.Jobs
	job    *schedule.Job
	gocron gocron.Job
	ready  chan struct{} // closed when NewJob returns
}

// IsValid makes the ticks of a crontab, unless they are those of another kind of job.
func (l *locker) IsValid(crontab string, location *time.Location, _ time.Time) (err error) {
	if l.job != nil {
		return nil
	}
	if crontab, l.Location, err = schedule.SplitZone(crontab, location); err != nil {
		return err
	}
	return l.crontabs(crontab)
}

var parser = cron.NewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

// crontabs adds the job with the ticks of all the crontabs.
func (l *locker) crontabs(crontabs ...string) (err error) {
	all := make([]cron.Schedule, len(crontabs))
	for i, crontab := range crontabs {
		if all[i], err = parser.Parse(crontab); err != nil {
			return err
		}
	}
	l.Config.Next = func(t time.Time) (first time.Time) {
		for i, s := range all {
			if next := s.Next(t); i == 0 || next.Before(first) {
				first = next
			}
		}
		return first
	}
	l.job, err = l.jobs.Add(l.Config)
	return err
}

// add adds a job that is no CronJob.
func (l *locker) add(s gocron.JobSchedule) (err error) {
	var times []time.Time
	var interval uint
	days := "* * *"
	list := func(days any) string {
		return strings.ReplaceAll(strings.Trim(fmt.Sprintf("%d", days), "[]"), " ", ",")
	}
	switch s := s.(type) {
	case gocron.DurationJobSchedule:
		l.Config.Next = schedule.Every(s.Duration)
		l.job, err = l.jobs.Add(l.Config)
		return err
	case gocron.DailyJobSchedule:
		times, interval = s.AtTimes, s.Interval
	case gocron.WeeklyJobSchedule:
		times, interval, days = s.AtTimes, s.Interval, "* * "+list(s.DaysOfWeek)
	case gocron.MonthlyJobSchedule:
		times, interval, days = s.AtTimes, s.Interval+uint(len(s.DaysFromEnd)), list(s.Days)+" * *"
	}
	if interval != 1 {
		return errors.New("its ticks depend on when the process began, or on the end of the month: use a CronJob")
	}
	var crontabs []string
	for _, at := range times {
		l.Location = at.Location()
		crontabs = append(crontabs, fmt.Sprintf("%d %d %d %s", at.Second(), at.Minute(), at.Hour(), days))
	}
	return l.crontabs(crontabs...)
}

// Next returns a time in UTC: gocron takes two times with the same hour and minute for the same.
func (l *locker) Next(last time.Time) time.Time { return l.job.Next(last.UTC()) }

// runNow makes gocron run the job, once its scheduler has been started.
func (l *locker) runNow(ctx context.Context) {
	for <-l.ready; ctx.Err() == nil && l.gocron != nil; time.Sleep(100 * time.Millisecond) {
		if next, err := l.gocron.NextRun(); err != nil || !next.IsZero() {
			_ = l.gocron.RunNow() // one that was removed misses nothing
			return
		}
	}
}

// gone reports whether gocron does not know the job any more.
func (l *locker) gone() bool {
	<-l.ready
	if l.gocron == nil {
		return true
	}
	_, err := l.gocron.NextRun()
	return errors.Is(err, gocron.ErrJobNotFound)
}

// Lock makes gocron skip the job where this process does not lead. The term may end before run enters it: a timer that is early waits.
func (l *locker) Lock(context.Context, string) (gocron.Lock, error) {
	leave, err := l.jobs.Enter()
	if err == nil {
		leave()
	}
	return l, err
}

func (*locker) Unlock(context.Context) error { return nil }

// run is the task: it takes the tick for which gocron fires, and runs the job.
func (l *locker) run(ctx context.Context) error {
	<-l.ready
	if l.gocron == nil {
		return nil // it has been refused, and was to start at once
	}
	return l.job.RunContext(ctx)
}
