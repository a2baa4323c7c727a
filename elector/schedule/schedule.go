// Package schedule runs jobs on the leader only, and each tick of a job once, in time or a little late, or it says
// which ticks nobody ran, and why.
//
//	reports, err := quorum.Election("reports")
//	jobs, err := schedule.New(reports, client)
//	noon, err := cron.ParseStandard("0 12 * * *")
//	err = jobs.Add(schedule.Job{Name: "mail", Schedule: noon, Location: berlin, Do: sendMail})
//	e, err := elector.New(quorum, elector.Config{Election: "reports", WorkProbe: jobs.Probe(0)})
//	err = e.Run(ctx, jobs.Work)
//
// Each job has a loop of its own while this process leads: it takes the newest tick that is due, runs it, records how that ended, and
// waits for the next one. A job never overlaps itself: a run that lasts longer than a period skips the ticks in between. The context of a run ends with
// the term, and the lock of the election is released only after all runs have returned. The next leader does not run the same tick
// again, although its clock may be behind; if nobody led when it was due, or Redis did not answer, it runs late, within
// [Job.Within]. What cannot be run any more is logged as "ticks were not run", and recorded for `mandate ticks`. A leader that dies
// while a job runs leaves that tick half done: it is not run again, but recorded as unknown. A new job misses nothing before it was first known to a leader.
//
// # Nights in which the clock changes
//
// The schedule decides. Of a job at 02:30, as tested: in the night in which the clock jumps from 02:00 to 03:00 robfig/cron leaves it out and
// netresearch/go-cron runs it at 03:30; in the night that has 02:30 twice, both run it twice. A time that no night changes, or UTC, has neither.
//
// # Clocks
//
// Ticks run by the clock of the leader's host. The Redis of the ticks only compares them. When its clock differs by more than a minute this is logged
// once, and Check says so. That Redis must keep the marks: if it loses them, a tick may run again, and what nobody ran is not named.
package schedule

import (
	"cmp"
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
	"github.com/mandate-dev/mandate/elector/internal/module"
	"github.com/mandate-dev/mandate/health"
)

// Schedule says when a job is due, as the schedules of robfig/cron and netresearch/go-cron do. Next returns the first tick after t, or the zero time
// if there is none. The ticks must not depend on when it is asked, as those of @every do: use [Every].
type Schedule interface{ Next(t time.Time) time.Time }

// Every is a schedule with a tick at each multiple of it since the year 1, in UTC: the same on every replica, whenever that began.
type Every time.Duration

// Next returns the first multiple after t. There is none for a duration below a millisecond.
func (e Every) Next(t time.Time) time.Time {
	if time.Duration(e) < time.Millisecond {
		return time.Time{}
	}
	return t.Truncate(time.Duration(e)).Add(time.Duration(e))
}

// Job is a function and its schedule.
type Job struct {
	Name     string // in Redis: 1 to 255 printable bytes without braces, the same on all replicas; no two jobs may have the same
	Schedule Schedule
	// Location is the zone in which the Schedule is asked, unless it has one of its own (CRON_TZ=Europe/Berlin 30 2 * * *). nil: UTC. time.Local is
	// refused, since the zones of hosts may differ.
	Location *time.Location
	// Within is how late a tick may run, if nobody led when it was due, Redis did not answer, or the job was running: the newest one;
	// earlier ones are skipped. 0: an hour.
	Within time.Duration
	// Timeout ends the context of a run. 0: only the end of the term does.
	Timeout time.Duration
	// Do runs the job. It must return when ctx ends. An error and a panic are logged and recorded. After an [ErrNothingDone] the tick
	// is tried again each second, here or on the next leader, within Within and until the next tick is due.
	Do func(ctx context.Context, run Run) error
}

// Run is one run of a job.
type Run struct {
	Job   string
	Tick  time.Time // what the schedule says, not when the run began; zero: it was started by RunNow
	Token uint64    // of the term, for fenced writes
}

// Errors of a run.
var (
	// ErrNothingDone is for a Do that has done nothing, and may be called again for the tick.
	ErrNothingDone = fence.ErrNothingDone
	// ErrRunning means that the job is running already.
	ErrRunning = errors.New("schedule: the job is running already")
)

// Jobs are the jobs of an election's leader. Safe for concurrent use.
type Jobs struct {
	election *elector.Election
	ticks    *fence.Once
	now      func() time.Time // the clock of this host

	mu       sync.Mutex
	all      map[string]*job
	runs     map[string]*running // those that have not returned, by job
	elected  *elector.Term       // the newest term of a candidate of this process
	by       string              // that candidate
	ctx      context.Context     // of the Work that runs jobs; nil: none does
	term     *elector.Term       // that Work serves; nil: none is running
	loops    sync.WaitGroup
	problems map[string]problem // by job, or of all
}

// problem is why ticks can't be taken, or may be wrong. One that is shared by jobs, as of a Redis that is away, is logged once.
type problem struct {
	err    error
	shared bool
}

// job is a job of Jobs. What follows the Job is behind their mutex.
type job struct {
	Job
	jobs    *Jobs
	byHand  chan byHand
	removed bool
	after   <-chan struct{} // closed when the loop of the job that had this name before has ended; nil: there is none
	over    chan struct{}   // closed when its loop has ended; nil: it has none
	cancel  context.CancelCauseFunc
}

// running is a run that has not returned.
type running struct {
	ctx  context.Context
	over time.Time // when Probe saw that the context has ended; zero: it has not
}

// New returns the jobs of the leader of an election, whose work is their Work. Two Jobs of one election must not have jobs of one name. The ticks are kept in the Redis of the client, which must be the same
// for all replicas, but may be another one than that of the election. New does no I/O. It refuses a client that cannot keep a
// mark (redis.Ring), or whose requests may hang for ever.
func New(election *elector.Election, client redis.UniversalClient) (*Jobs, error) {
	if election == nil {
		return nil, errors.New("schedule: the election is nil")
	}
	ticks, err := fence.NewOnce(client, election)
	if err != nil {
		return nil, err
	}
	j := &Jobs{election: election, ticks: ticks, now: time.Now, all: map[string]*job{}, runs: map[string]*running{}, problems: map[string]problem{}}
	election.OnTerm(module.Only{}, j.onTerm)
	return j, nil
}

// Add adds a job, also while this process leads. It refuses what would fail at each tick. It does no I/O.
func (j *Jobs) Add(c Job) error {
	added := &job{Job: c, jobs: j, byHand: make(chan byHand)}
	if err := added.check(); err != nil {
		return fmt.Errorf("schedule: job %.40q: %w", c.Name, err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if old := j.all[c.Name]; old != nil {
		if !old.removed {
			return fmt.Errorf("schedule: there are two jobs with the name %s: they would share their ticks", c.Name)
		}
		added.after = old.over
	}
	j.all[c.Name] = added
	if j.ctx != nil {
		j.start(added)
	}
	time.AfterFunc(serveWithin, j.checkServed)
	return nil
}

func (j *job) check() error {
	switch {
	case j.Schedule == nil || j.Do == nil:
		return errors.New("it has no Schedule or no Do")
	case j.Location == time.Local:
		return errors.New("the Location is that of the host, and another host may have another: name the zone, or leave it nil for UTC")
	case j.Timeout != 0 && j.Timeout < time.Millisecond:
		return fmt.Errorf("the Timeout is %v: give at least 1ms, or 0 for none", j.Timeout)
	}
	_, err := j.latest()
	return err
}

// Remove removes a job, also while it runs: then the context of its run ends. It returns at once. A job of that name that is added
// later begins when the run has returned. Where this process leads, the job is not overdue from then on. Remove reports whether there
// was such a job.
func (j *Jobs) Remove(name string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	old := j.all[name]
	if old == nil || old.removed {
		return false
	}
	if old.removed = true; old.over == nil {
		delete(j.all, name)
	} else {
		old.cancel(errRemoved)
	}
	return true
}

// RunNow runs a job now, beside its schedule, waits until it has returned, and returns its error. The run is recorded as one by hand, and takes no tick. ctx
// ends it, as Timeout and the term do. The error is elector.ErrNotLeader where this process does not lead, and [ErrRunning] if the
// job is running.
func (j *Jobs) RunNow(ctx context.Context, name string) error {
	j.mu.Lock()
	job, err := j.all[name], error(nil)
	switch {
	case job == nil || job.removed:
		err = fmt.Errorf("schedule: there is no job %.40q", name)
	case j.unserved():
		err = errUnserved
	case j.ctx == nil || job.over == nil || !j.term.Valid():
		err = elector.ErrNotLeader
	case j.runs[name] != nil:
		err = ErrRunning
	}
	if err != nil {
		j.mu.Unlock()
		return err
	}
	h, over := byHand{ctx, make(chan error, 1)}, job.over
	j.mu.Unlock()
	select {
	case job.byHand <- h:
		return <-h.done
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-over:
		return elector.ErrNotLeader
	}
}

// Work is the work of the elector. It runs the jobs until ctx ends, and returns when all runs have returned. Beside work of one's own it can run in
// an errgroup of that work. Jobs serve one term at a time.
func (j *Jobs) Work(ctx context.Context, term *elector.Term) error {
	j.mu.Lock()
	if j.term != nil {
		j.mu.Unlock()
		return errors.New("schedule: these jobs serve another term already: use one Jobs for each Elector")
	}
	j.ctx, j.term = ctx, term
	j.election.Serve(module.Only{}, term)
	j.report(ofWork, nil, false)
	for _, job := range j.all {
		j.start(job)
	}
	j.mu.Unlock()

	<-ctx.Done()

	j.mu.Lock()
	j.ctx = nil // nothing starts from here on
	clear(j.problems)
	j.mu.Unlock()
	j.loops.Wait()

	j.mu.Lock()
	defer j.mu.Unlock()
	j.term = nil
	if j.election.Served(module.Only{}) == term {
		j.election.Serve(module.Only{}, nil)
	}
	time.AfterFunc(serveWithin, j.checkServed) // Work may have ended before the term
	return nil
}

// start starts the loop of a job. The caller holds the mutex.
func (j *Jobs) start(job *job) {
	ctx, cancel := context.WithCancelCause(j.ctx)
	l := &loop{job: job, term: j.term, by: j.by}
	job.over, job.cancel = make(chan struct{}), cancel
	j.loops.Go(func() {
		l.lead(ctx)
		cancel(nil)
		j.mu.Lock()
		defer j.mu.Unlock()
		close(job.over)
		if j.all[job.Name] == job {
			delete(j.problems, job.Name)
		}
		if job.over = nil; job.removed && j.all[job.Name] == job {
			delete(j.all, job.Name)
		}
	})
}

var errUnserved = errors.New("schedule: the jobs are not run: this process leads, but its work is not Jobs.Work: give it to Run, or run it in an errgroup of the work")

// serveWithin is how long a leader may take until its work runs the jobs.
const serveWithin = time.Second

// onTerm is called when a candidate of this process begins a term.
func (j *Jobs) onTerm(candidate string, log *slog.Logger, term *elector.Term) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.elected, j.by = term, candidate
	if j.ticks.Logger == nil {
		j.ticks.Logger = log
	}
	time.AfterFunc(serveWithin, j.checkServed)
}

// checkServed reports that this process leads with other work than Work.
func (j *Jobs) checkServed() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.unserved() {
		j.report(ofWork, errUnserved, false)
	}
}

// unserved reports whether a candidate of this process leads, and nobody runs jobs in its term. The caller holds the mutex.
func (j *Jobs) unserved() bool {
	return len(j.all) > 0 && j.term == nil && j.elected.Valid() && j.election.Served(module.Only{}) != j.elected
}

// Check returns what is wrong with the jobs at present: ticks can't be taken since their Redis does not answer, or refuses; the clocks of host and
// Redis differ; or this process leads with other work than Work. It returns nil where this process does not lead, and does no I/O.
func (j *Jobs) Check() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.elected.Valid() {
		delete(j.problems, ofWork)
	}
	var errs []error
	shared := 0
	for _, of := range slices.Sorted(maps.Keys(j.problems)) {
		p := j.problems[of]
		if p.shared {
			shared++
		}
		if !p.shared || shared == 1 {
			errs = append(errs, p.err)
		}
	}
	if shared > 1 {
		errs = append(errs, fmt.Errorf("schedule: the same of %d jobs more", shared-1))
	}
	return errors.Join(errs...)
}

// Probe returns a probe for elector.Config.WorkProbe: it fails when a run has not returned so long after its Timeout, or another
// end of its context. Then the term ends, as for any work that hangs, and the next leader runs what is due. 0: 10 s. A job without a
// Timeout may take as long as it likes.
func (j *Jobs) Probe(grace time.Duration) health.Probe {
	grace = cmp.Or(max(0, grace), 10*time.Second)
	return health.Func(func(context.Context) error {
		j.mu.Lock()
		defer j.mu.Unlock()
		for name, run := range j.runs {
			if run.ctx.Err() == nil {
				continue
			}
			if run.over.IsZero() {
				run.over = time.Now()
			}
			if late := time.Since(run.over); late >= grace {
				return health.Definite(fmt.Errorf("job %s has not returned for %v after the end of its context", name, late.Round(time.Millisecond)))
			}
		}
		return nil
	})
}

// What a problem is of that is not one of a job.
const (
	ofClocks = "\x00clocks"
	ofWork   = "\x00work"
)

// report notes a problem, or that there is none any more, and logs that when it changes. The caller holds the mutex.
func (j *Jobs) report(of string, err error, shared bool) {
	if j.ctx == nil && of != ofWork {
		return // the term has ended
	}
	was, had := j.problems[of]
	delete(j.problems, of)
	// A shared one, of another job, is known.
	known := slices.ContainsFunc(slices.Collect(maps.Values(j.problems)), func(p problem) bool { return p.shared })
	if err != nil {
		j.problems[of] = problem{err, shared}
	}
	switch {
	case err != nil && !had && !(shared && known):
		j.log().Warn("problem with jobs", "error", err)
	case err == nil && had && !(was.shared && known):
		j.log().Info("problem with jobs has ended", "problem", was.err)
	}
}

// log returns the logger of the candidate, or that of the program.
func (j *Jobs) log() *slog.Logger { return cmp.Or(j.ticks.Logger, slog.Default()) }
