// Package electorgocron runs the jobs of a gocron scheduler on the leader only, and each tick of a job once.
//
//	gate := new(elector.Gate)
//	ended := make(chan error, 1)
//	go func() { ended <- e.Run(ctx, gate.Work) }() // main waits for it
//	ticks, err := fence.NewOnce(client, e.Election())
//	jobs := electorgocron.Locker{Gate: gate, Ticks: ticks}
//	_, err = jobs.NewJob(scheduler, "mail", "0 12 * * *", gocron.NewTask(sendMail))
//
// All replicas start their schedulers. Where this process does not lead, gocron skips the job. Where it leads,
// the lock of the election is released only after the job has returned; the next leader does not run the same tick
// again, although its clock may be behind.
//
// A job must stop when its term ends. Its context is gocron's, which does not end then: put its work into
// [elector.Gate.Do], whose context does.
package electorgocron

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/robfig/cron/v3"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/fence"
)

// Locker makes the jobs of an elector's leader. Its fields must not change after the first use. Safe for
// concurrent use.
type Locker struct {
	Gate     *elector.Gate  // its Work is the work of the Elector
	Ticks    *fence.Once    // of the jobs; all replicas use the same
	Location *time.Location // of schedules that name none; nil: UTC, since the zones of hosts may differ
	By       string         // names this process in the ticks, as the candidate's id does; may be empty
	// Timeout bounds the request that takes a tick; 0: 5 s.
	Timeout time.Duration

	now func() time.Time // nil: time.Now; tests have clocks that differ
}

// IsLeader makes a Locker a gocron.Elector: it returns nil while this process leads. It neither takes ticks
// nor makes the release wait for jobs: prefer NewJob. gocron asks no locker if it has an elector.
func (l Locker) IsLeader(context.Context) error {
	_, leave, err := l.Gate.Enter()
	if err != nil {
		return err
	}
	leave()
	return nil
}

// NewJob adds a job to a scheduler. Its name identifies it in Redis, and must be the same on all replicas. spec is a
// crontab of five fields, or six with seconds, or a descriptor such as @daily. Durations (@every) are
// refused: they count from when a process began, so that a tick has no ideal time; "*/5 * * * * *" has.
// gocron's AfterLockError reports ticks that were not run here, and why.
func (l Locker) NewJob(s gocron.Scheduler, name, spec string, task gocron.Task, options ...gocron.JobOption) (gocron.Job, error) {
	if l.Gate == nil || l.Ticks == nil {
		return nil, errors.New("electorgocron: a Locker needs a Gate and Ticks")
	}
	if !strings.HasPrefix(spec, "TZ=") && !strings.HasPrefix(spec, "CRON_TZ=") {
		location := l.Location
		if location == nil {
			location = time.UTC
		}
		spec = "CRON_TZ=" + location.String() + " " + spec
	}
	schedule, err := parser.Parse(spec)
	if err != nil {
		return nil, fmt.Errorf("electorgocron: job %s: %w", name, err)
	}
	if _, ok := schedule.(cron.ConstantDelaySchedule); ok {
		return nil, fmt.Errorf("electorgocron: job %s: %s counts from when this process began, and differs on each replica: write a crontab, "+
			"such as */5 * * * * * for every five seconds", name, spec)
	}
	own := []gocron.JobOption{gocron.WithName(name), gocron.WithDistributedJobLocker(locker{l, schedule})}
	return s.NewJob(gocron.CronJob(spec, true), task, append(options, own...)...)
}

// CatchUp is the work of the elector in place of Gate.Work: when a term begins it also runs the latest tick of each of these
// jobs of NewJob, unless that has been taken, or the job has never run: nobody led when it was due, or this process did not yet.
// Earlier ones are missed. The scheduler must have been started. While the Redis of the ticks does not answer it tries again, for
// as long as the term lasts; the end of the term does not wait for that.
func (l Locker) CatchUp(jobs ...gocron.Job) elector.Work {
	return func(ctx context.Context, term *elector.Term) error {
		go func() {
			for l.IsLeader(ctx) != nil && ctx.Err() == nil { // the gate is about to open
				time.Sleep(time.Millisecond)
			}
			for _, job := range jobs {
				l.catchUp(ctx, job)
			}
		}()
		return l.Gate.Work(ctx, term)
	}
}

func (l Locker) catchUp(ctx context.Context, job gocron.Job) {
	for ctx.Err() == nil {
		last, err := l.Ticks.Last(ctx, job.Name())
		if err == nil {
			if !last.Tick.IsZero() {
				_ = job.RunNow() // Lock refuses what has been taken; a scheduler that is shut down misses nothing
			}
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// parser reads what gocron reads with seconds.
var parser = cron.NewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

// locker is the gocron.Locker of one job.
type locker struct {
	Locker
	schedule cron.Schedule
}

// Lock enters the gate, and takes the tick that is due.
func (l locker) Lock(ctx context.Context, job string) (gocron.Lock, error) {
	term, leave, err := l.Gate.Enter()
	if err != nil {
		return nil, err
	}
	now := time.Now
	if l.now != nil {
		now = l.now
	}
	tick, err := fence.Latest(l.schedule.Next, now())
	if err == nil {
		timeout := l.Timeout
		if timeout == 0 {
			timeout = 5 * time.Second
		}
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		tick.Job, tick.Token, tick.By = job, term.Token(), l.By
		err = l.Ticks.Take(ctx, tick)
	}
	if err == nil && !term.Valid() { // an answer that came late: another one may lead, and the tick is lost rather than run beside it
		err = fmt.Errorf("the tick of %s was taken, but the term has ended meanwhile: %w", job, elector.ErrNotLeader)
	}
	if err != nil {
		leave()
		return nil, err
	}
	return lock{leave}, nil
}

type lock struct{ leave func() }

// Unlock lets the term end.
func (l lock) Unlock(context.Context) error {
	l.leave()
	return nil
}
