// Package schedule runs the jobs of a scheduler on the leader only, and each tick of a job once, in time or a little late, or
// it says which ticks nobody ran, and why. The schedulers themselves are others': here with robfig/cron (or its fork
// netresearch/go-cron); for gocron there is elector/electorgocron, for asynq elector/electorasynq.
//
//	jobs, err := schedule.New(e, client)
//	noon, err := cron.ParseStandard("0 12 * * *")
//	mail, err := jobs.Add(schedule.Config{Name: "mail", Next: noon.Next, Location: berlin, Do: sendMail})
//	c.Schedule(mail, mail)
//	c.Start()
//	err = e.Run(ctx, jobs.Work)
//
// All replicas start their schedulers. Where this process does not lead, a job does nothing. Where it leads, its context ends with
// the term, and the lock of the election is released only after it has returned. The next leader does not run the same tick again,
// although its clock may be behind; if nobody led when it was due, or Redis did not answer, it runs late, within
// [Config.Within]. What cannot be run any more is logged as "ticks were not run", and recorded for `mandate ticks`.
//
// # Nights in which the clock changes
//
// As with cron(8): a job with a tick in every hour (*/10 * * * *) runs as often as the clock shows its times. Any other one runs once for each
// of its times. Due at 02:30, it runs at 03:00 in the night in which the clock jumps from 02:00 to 03:00, and at the first
// 02:30 in the night that has two.
package schedule

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/fence"
)

// Jobs are the jobs of one elector's leader. Safe for concurrent use.
type Jobs struct {
	gate  elector.Gate
	ticks *fence.Once
	by    string
	log   *slog.Logger

	mu       sync.Mutex
	all      map[string]*Job
	lead     func(...*Job)    // catches up, while this process leads
	problems map[string]error // why ticks can't be taken: of the job with a foreign mark, or of all under ""
}

// New returns the jobs of an elector, whose work is their Work. The ticks are kept in the Redis of the client, which must be the same
// for all replicas, but may be another one than that of the election. New does no I/O.
func New(e *elector.Elector, client redis.UniversalClient) (*Jobs, error) {
	ticks, err := fence.NewOnce(client, e.Election())
	if err != nil {
		return nil, err
	}
	ticks.Logger = e.Logger()
	return &Jobs{ticks: ticks, by: e.ID(), log: e.Logger(), all: map[string]*Job{}, problems: map[string]error{}}, nil
}

// Config is a job.
type Config struct {
	Name string // in Redis: 1 to 255 printable bytes without braces, the same on all replicas; no two jobs may have the same
	// Next returns the first tick after a time, as the Next of robfig/cron's schedules does, of a crontab without a zone ([SplitZone]).
	// A schedule that counts from when the process began, such as @every 5m, has its ticks at multiples of that, as [Every] has them.
	Next     func(time.Time) time.Time
	Location *time.Location // of the times in the schedule; nil: UTC, since the zones of hosts may differ
	// Within is how late a tick may run, if nobody led when it was due or Redis did not answer: the newest one; earlier ones are
	// skipped. 0: an hour (see [fence.Tick]).
	Within time.Duration
	// Do runs the job. It must stop when ctx ends, with the term at the latest. An error is logged.
	Do func(ctx context.Context, run Run) error
	// Late makes the scheduler run the job for a missed tick, in the term of ctx; nil: Run is called.
	Late func(ctx context.Context)
	// Gone reports whether the scheduler does not know the job any more, and another one may have its name; nil: it does.
	Gone func() bool
}

// Run is one run of a job.
type Run struct {
	Job   string
	Tick  time.Time // what the schedule says, not when the job began
	Token uint64    // of the term, for fenced writes
}

// Add adds a job. It refuses what would fail at each tick.
func (j *Jobs) Add(c Config) (*Job, error) {
	if c.Next == nil || c.Do == nil {
		return nil, fmt.Errorf("schedule: job %.40q has no Next or no Do", c.Name)
	}
	job := &Job{Config: c, jobs: j, taking: make(chan struct{}, 1), next: inZone(c.Next, c.Location)}
	tick, err := fence.Latest(job.next, job.now())
	tick.Job, tick.Within, tick.By, tick.Token = c.Name, c.Within, j.by, 1
	if err == nil {
		err = tick.Check()
	}
	if err != nil {
		return nil, fmt.Errorf("schedule: job %.40q: %w", c.Name, err)
	}
	job.fired = tick.At
	j.mu.Lock()
	defer j.mu.Unlock()
	if old := j.all[c.Name]; old != nil && (old.Gone == nil || !old.Gone()) {
		return nil, fmt.Errorf("schedule: there are two jobs with the name %s: they would share their ticks", c.Name)
	}
	j.all[c.Name] = job
	if j.lead != nil {
		go j.lead(job)
	}
	return job, nil
}

// Work is the work of the elector. When a term begins it runs the newest tick of each job that was missed.
func (j *Jobs) Work(ctx context.Context, term *elector.Term) error {
	lead := func(jobs ...*Job) {
		for ctx.Err() == nil {
			if leave, err := j.Enter(); err == nil {
				leave()
				break
			}
			time.Sleep(time.Millisecond) // the gate is about to open
		}
		for _, job := range jobs {
			job.catchUp(ctx, term)
		}
	}
	go lead(j.begin(lead)...)
	defer j.begin(nil)
	return j.gate.Work(ctx, term)
}

// begin sets what is done with each job that is added from now on, and returns those that there are.
func (j *Jobs) begin(lead func(...*Job)) []*Job {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lead = lead
	clear(j.problems) // they were those of a term
	return slices.Collect(maps.Values(j.all))
}

// Enter holds the term until leave, if this process leads; else the error is elector.ErrNotLeader. See elector.Gate.
func (j *Jobs) Enter() (leave func(), err error) {
	_, leave, err = j.gate.Enter()
	return leave, err
}

// Check returns why ticks can't be taken at present: their Redis does not answer, or refuses. It returns nil where this process does not
// lead, and does no I/O.
func (j *Jobs) Check() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return errors.Join(slices.Collect(maps.Values(j.problems))...)
}

// report logs a problem with the ticks when it begins and when it has ended, and not for each job.
func (j *Jobs) report(job string, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	of := ""
	if errors.Is(err, fence.ErrForeignMark) {
		of = job
	}
	switch {
	case err != nil && j.problems[of] == nil:
		j.problems[of] = err
		j.log.Warn("cannot take ticks", "job", job, "error", err)
	case err == nil && (j.problems[""] != nil || j.problems[job] != nil):
		delete(j.problems, "")
		delete(j.problems, job)
		j.log.Info("can take ticks again", "job", job)
	}
}
