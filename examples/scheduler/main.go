// Command scheduler runs the jobs of a crontab on one of its replicas, and each tick once. See README.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/fence"
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
	ahead := f.Duration("clock", 0, "how far the clock of this replica is ahead, to try it out")
	catchUp := f.Bool("catch-up", false, "run the latest tick late if nobody led when it was due")
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
	ticks, err := fence.NewOnce(client, candidate.Election())
	if err != nil {
		return err
	}
	s := &scheduler{log: f.Log, by: *id, ticks: ticks, ahead: *ahead, catchUp: *catchUp}
	for i := range *jobs {
		if err := s.add(fmt.Sprintf("job-%d", i), "* * * * * *", s.job); err != nil {
			return err
		}
	}
	return candidate.Run(ctx, s.lead)
}

// job is where your own work goes. It must stop when ctx ends.
func (s *scheduler) job(ctx context.Context, name string, tick time.Time) error {
	s.log.Info("running", "job", name, "tick", tick.Unix(), "by", s.by)
	return ctx.Err()
}

// scheduler runs jobs while this replica leads.
type scheduler struct {
	log   *slog.Logger
	by    string
	ticks *fence.Once
	jobs  []job
	ahead time.Duration // of its clock
	// catchUp runs the latest of the ticks that were missed when a term begins.
	catchUp bool
}

// job is a job with its schedule.
type job struct {
	name     string
	schedule cron.Schedule
	run      func(ctx context.Context, name string, tick time.Time) error
}

// crontab has six fields, the first one for seconds.
var crontab = cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

func (s *scheduler) add(name, spec string, run func(ctx context.Context, name string, tick time.Time) error) error {
	schedule, err := crontab.Parse("CRON_TZ=UTC " + spec) // the zones of hosts may differ
	s.jobs = append(s.jobs, job{name, schedule, run})
	return err
}

// lead runs the jobs until the term ends, and returns when the last one has returned: only then is the lock
// released.
func (s *scheduler) lead(ctx context.Context, term *elector.Term) error {
	c := cron.New()
	var late sync.WaitGroup
	for _, j := range s.jobs {
		if s.missed(ctx, j) && s.catchUp {
			late.Go(cron.NewChain(s.once(ctx, term, j)).Then(nil).Run)
		}
		c.Schedule(shifted{j.schedule, s.ahead}, cron.NewChain(s.once(ctx, term, j)).Then(nil))
	}
	c.Start()
	<-ctx.Done()
	<-c.Stop().Done()
	late.Wait()
	return nil
}

// once makes a job run each of its ticks once, whichever replica leads and whatever its clock says.
func (s *scheduler) once(ctx context.Context, term *elector.Term, j job) cron.JobWrapper {
	return func(cron.Job) cron.Job {
		return cron.FuncJob(func() {
			tick, err := fence.Latest(j.schedule.Next, s.now())
			if err == nil {
				tick.Job, tick.Token, tick.By = j.name, term.Token(), s.by
				err = s.ticks.Do(ctx, tick, func(ctx context.Context) error { return j.run(ctx, j.name, tick.At) })
			}
			switch {
			case err == nil, errors.Is(err, context.Canceled):
			case errors.Is(err, fence.ErrRan), errors.Is(err, fence.ErrStale):
				s.log.Info("not run here", "job", j.name, "reason", err)
			default:
				s.log.Warn("job failed", "job", j.name, "error", err)
			}
		})
	}
}

// missed reports whether ticks are due that nobody has run, and logs them: nobody led, or its time was over. Only the
// latest one can still be run: that of a later tick refuses all earlier ones.
func (s *scheduler) missed(ctx context.Context, j job) bool {
	last, err := s.ticks.Last(ctx, j.name)
	if err != nil || last.Tick.IsZero() { // it has never run
		return false
	}
	latest, err := fence.Latest(j.schedule.Next, s.now())
	if err != nil || !latest.At.After(last.Tick) {
		return false
	}
	s.log.Warn("missed ticks", "job", j.name, "after", last.Tick.Unix(), "until", latest.At.Unix(), "catching_up", s.catchUp)
	return true
}

func (s *scheduler) now() time.Time { return time.Now().Add(s.ahead) }

// shifted is a schedule on a clock that is ahead.
type shifted struct {
	cron.Schedule
	ahead time.Duration
}

func (s shifted) Next(t time.Time) time.Time { return s.Schedule.Next(t.Add(s.ahead)).Add(-s.ahead) }
