package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electortest"
	"github.com/mandate-dev/mandate/elector/fence"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
	"github.com/mandate-dev/mandate/elector/proof/testcluster"
	"github.com/mandate-dev/mandate/elector/schedule"
	"github.com/mandate-dev/mandate/health"
)

var must = servertest.Must

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const hourly, minutely = schedule.Every(time.Hour), schedule.Every(time.Minute)

// stage is what the replicas of a test share.
type stage struct {
	t   *testing.T
	r   *electortest.Redis
	log testcluster.Logbook

	mu  sync.Mutex
	ran []schedule.Run
}

func test(t *testing.T, f func(t *testing.T, s *stage)) {
	electortest.Test(t, func(t *testing.T, r *electortest.Redis) { f(t, &stage{t: t, r: r}) })
}

// lines returns how many lines of all logs hold a text.
func (s *stage) lines(text string) int { return len(s.log.Lines(text)) }

// note is a Do that notes its run.
func (s *stage) note(_ context.Context, run schedule.Run) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ran = append(s.ran, run)
	return nil
}

// ticks returns the ticks that ran, as minutes after midnight.
func (s *stage) ticks() (minutes []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, run := range s.ran {
		minutes = append(minutes, run.Tick.UTC().Hour()*60+run.Tick.UTC().Minute())
	}
	return minutes
}

func (s *stage) want(minutes ...int) {
	s.t.Helper()
	if got := s.ticks(); !slices.Equal(got, minutes) {
		s.t.Errorf("ran at the minutes %v, want %v:\n%s", got, minutes, s.log.String())
	}
}

// mark returns the mark of a job.
func (s *stage) mark(job string) fence.Taken {
	s.t.Helper()
	once, err := fence.NewOnce(s.r.Client("reader"), testcluster.ElectionOf(s.r.Quorum("reader"), "reports"))
	must(s.t, err)
	taken, err := once.Last(context.Background(), job)
	if err != nil {
		s.t.Error(err)
	}
	return taken
}

// replica is one process.
type replica struct {
	*schedule.Jobs
	s *stage
	e *testcluster.Candidate
}

// stop ends the elector, and waits for that.
func (r *replica) stop() {
	r.e.Stop()
	<-r.e.Done
}

// setting is what differs between replicas.
type setting struct {
	client redis.UniversalClient // of the ticks; nil: that of the election
	ahead  time.Duration         // of its clock
	clock  func() time.Time      // instead of that
	work   elector.Work          // instead of Jobs.Work
	probe  bool
	config func(*elector.Config)
}

// start starts a replica with jobs; one without a name is "mail", and one without Do notes its runs.
func (s *stage) start(id string, k setting, all ...schedule.Job) *replica {
	s.t.Helper()
	q := s.r.Quorum(id)
	if k.client == nil {
		k.client = s.r.Client(id)
	}
	jobs, err := schedule.New(testcluster.ElectionOf(q, "reports"), k.client)
	must(s.t, err)
	r := &replica{Jobs: jobs, s: s}
	if k.clock == nil {
		k.clock = func() time.Time { return time.Now().Add(k.ahead) }
	}
	r.SetClock(k.clock)
	for _, job := range all {
		r.add(job)
	}
	r.e = testcluster.NewCandidate(s.t, q, id, func(cfg *elector.Config) {
		cfg.Election, cfg.Lease, cfg.Cooldown, cfg.Logger = "reports", time.Minute, -1, slog.New(slog.NewTextHandler(&s.log, nil))
		if k.probe {
			cfg.WorkProbe, cfg.WorkProbeSettings = r.Probe(5*time.Second), health.Settings{Interval: time.Second}
		}
		if k.config != nil {
			k.config(cfg)
		}
	})
	if k.work == nil {
		k.work = r.Work
	}
	r.e.Begin(k.work)
	return r
}

func (r *replica) add(job schedule.Job) {
	r.s.t.Helper()
	if job.Name == "" {
		job.Name = "mail"
	}
	if job.Do == nil {
		job.Do = r.s.note
	}
	must(r.s.t, r.Add(job))
}

// The first deploy catches up with nothing; the newest tick of which nobody led in time runs late; one that is too old is named.
func TestMissedTicks(t *testing.T) {
	test(t, func(t *testing.T, s *stage) {
		time.Sleep(10 * time.Minute)
		a := s.start("a", setting{}, schedule.Job{Schedule: hourly, Within: 50 * time.Minute})
		time.Sleep(time.Hour)
		s.want(60)
		a.stop()
		time.Sleep(2 * time.Hour) // 3:10
		b := s.start("b", setting{}, schedule.Job{Schedule: hourly, Within: 50 * time.Minute})
		time.Sleep(time.Minute)
		s.want(60, 180)
		if m := s.mark("mail"); len(m.Skipped) != 1 || m.Skipped[0].First.Hour() != 2 || !m.Skipped[0].Last.Equal(m.Skipped[0].First) || m.Skipped[0].Reason != "no leader ran it in time" {
			t.Errorf("%+v", m.Skipped)
		}
		b.stop()
		time.Sleep(104 * time.Minute) // 4:55
		s.start("c", setting{}, schedule.Job{Schedule: hourly, Within: 50 * time.Minute})
		time.Sleep(10 * time.Minute)
		s.want(60, 180, 300)
		if n := s.lines("ticks were not run"); n != 2 {
			t.Errorf("%d lines:\n%s", n, s.log.String())
		}
	})
}

// schedules are those of users' own code.
type schedules func(time.Time) time.Time

func (f schedules) Next(t time.Time) time.Time { return f(t) }

// at returns a schedule with these ticks, in minutes after midnight of the day on which the test begins.
func at(minutes ...int) schedule.Schedule {
	day := time.Now().Truncate(24 * time.Hour)
	return schedules(func(t time.Time) time.Time {
		for _, m := range minutes {
			if tick := day.Add(time.Duration(m) * time.Minute); tick.After(t) {
				return tick
			}
		}
		return time.Time{}
	})
}

// Schedules may end, begin later, and change: the last tick runs, also late, and what the old one asked for is neither missed nor overdue.
func TestSchedulesThatAreNotForEver(t *testing.T) {
	for name, k := range map[string]struct {
		before, after []int
		want          []int
	}{
		"ends":                {[]int{30, 60, 90}, []int{30, 60, 90}, []int{30, 60, 90}},
		"ends while away":     {[]int{30, 100}, []int{30, 100}, []int{30, 100}},
		"begins later":        {[]int{150, 200}, []int{150, 200}, []int{150, 200}},
		"begins while away":   {[]int{100, 150}, []int{100, 150}, []int{100, 150}},
		"more often":          {[]int{60, 120, 180}, []int{50, 70, 90, 100, 110, 130}, []int{60, 110, 130}},
		"more seldom":         {[]int{60, 80, 100, 120}, []int{85, 90, 240}, []int{60, 80, 240}},
		"another time of day": {[]int{30, 1000}, []int{20, 80, 240}, []int{30, 240}},
		"has ended, goes on":  {[]int{30}, []int{30, 90, 240}, []int{30, 240}},
	} {
		t.Run(name, func(t *testing.T) {
			test(t, func(t *testing.T, s *stage) {
				before, after := at(k.before...), at(k.after...)
				a := s.start("a", setting{}, schedule.Job{Schedule: before})
				time.Sleep(95 * time.Minute)
				a.stop()
				time.Sleep(10 * time.Minute)
				s.start("b", setting{}, schedule.Job{Schedule: after})
				time.Sleep(2 * time.Minute)
				if late := s.mark("mail").Overdue(time.Now()); late != 0 {
					t.Errorf("overdue by %v", late)
				}
				time.Sleep(200 * time.Minute)
				if s.want(k.want...); s.lines("ticks were not run") != 0 {
					t.Error(s.log.String())
				}
			})
		})
	}
}

// A Redis of the ticks that is away: a line when it begins and one when it has ended, Check says it, the newest tick runs late, and
// the ones before are named with the reason. It does not delay a handover.
func TestRedisOfTheTicksIsAway(t *testing.T) {
	test(t, func(t *testing.T, s *stage) {
		a := s.start("a", setting{client: s.r.Client("ticks")}, schedule.Job{Schedule: minutely})
		time.Sleep(90 * time.Second)
		heal := s.r.CutOff("ticks")
		time.Sleep(4*time.Minute + 10*time.Second)
		if err := a.Check(); err == nil || s.lines("problem with jobs\"") != 1 {
			t.Errorf("%v\n%s", err, s.log.String())
		}
		heal()
		time.Sleep(15 * time.Second) // before the next tick
		if s.want(1, 5); a.Check() != nil || s.lines("problem with jobs has ended") != 1 {
			t.Error(a.Check())
		}
		if gaps := s.mark("mail").Skipped; len(gaps) != 1 || !strings.HasPrefix(gaps[0].Reason, "it could not be taken: ") {
			t.Errorf("%+v", gaps)
		}
		s.r.CutOff("ticks")
		time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute + time.Second))) // a tick is being taken
		began := time.Now()
		must(t, a.e.Resign(context.Background()))
		if took := time.Since(began); took > 50*time.Millisecond {
			t.Errorf("the end of the term took %v", took)
		}
	})
}

// A key of another program stops the ticks of its job, until it is deleted, and no other's.
func TestForeignMark(t *testing.T) {
	test(t, func(t *testing.T, s *stage) {
		c := s.r.Client("operator")
		c.HSet(context.Background(), "mandate:{reports}:tick:mail", "tick", "soon")
		time.Sleep(30 * time.Minute)
		job := schedule.Job{Schedule: hourly}
		jobs := []schedule.Job{job}
		for i := range 5 {
			job.Name = fmt.Sprint("good", i)
			jobs = append(jobs, job)
		}
		a := s.start("a", setting{}, jobs...)
		time.Sleep(10 * time.Minute)
		a.stop()
		time.Sleep(30 * time.Minute)
		b := s.start("b", setting{}, jobs...)
		time.Sleep(time.Minute)
		if s.want(60, 60, 60, 60, 60); !errors.Is(b.Check(), fence.ErrForeignMark) || !strings.Contains(b.Check().Error(), "delete it") {
			t.Error(b.Check())
		}
		c.Del(context.Background(), "mandate:{reports}:tick:mail")
		time.Sleep(time.Hour)
		if n := len(s.ticks()); n != 11 || b.Check() != nil {
			t.Errorf("%d ran, %v", n, b.Check())
		}
	})
}

// A Do that has done nothing is tried again, here or on the next leader, although Redis is away when it says so; if a later tick
// is due before it has done anything, or it is too late, its tick is named.
func TestNothingDone(t *testing.T) {
	for name, k := range map[string]struct {
		ready  time.Duration // after its first tick the job can do something
		away   time.Duration // of the ticks' Redis, from the first run on
		resign bool          // half a second after the tick
		within time.Duration
		want   []int
		named  int
	}{
		"soon":                           {ready: 20 * time.Second, want: []int{5}},
		"Redis is away":                  {ready: 10 * time.Second, away: 30 * time.Second, want: []int{5}},
		"on the next leader":             {ready: 5 * time.Second, resign: true, want: []int{5}},
		"its loss is named":              {ready: 5 * time.Second, away: 20 * time.Second, resign: true, named: 1},
		"for longer than to the next":    {ready: 310 * time.Second, want: []int{10}, named: 1},
		"for longer than it may be late": {ready: 150 * time.Second, within: 2 * time.Minute, want: []int{10}, named: 1},
	} {
		t.Run(name, func(t *testing.T) {
			test(t, func(t *testing.T, s *stage) {
				first := time.Now().Add(5 * time.Minute)
				var cut sync.Once
				do := func(ctx context.Context, run schedule.Run) error {
					if k.away > 0 {
						cut.Do(func() { time.AfterFunc(k.away, s.r.CutOff("ticks")) })
					}
					if time.Since(first) < k.ready {
						return fmt.Errorf("its database is away: %w", schedule.ErrNothingDone)
					}
					return s.note(ctx, run)
				}
				job := schedule.Job{Schedule: schedule.Every(5 * time.Minute), Within: k.within, Do: do}
				a := s.start("a", setting{client: s.r.Client("ticks")}, job)
				time.Sleep(time.Second)
				s.start("b", setting{client: s.r.Client("ticks")}, job)
				time.Sleep(time.Until(first.Add(time.Second / 2)))
				if k.resign {
					_ = a.e.Resign(context.Background())
				}
				time.Sleep(4 * time.Minute)
				if len(k.want) > 0 && k.want[0] == 10 {
					time.Sleep(2 * time.Minute)
				}
				s.want(k.want...)
				if n := s.lines("ticks were not run") + s.lines("tick_lost=true"); n != k.named {
					t.Errorf("%d lines:\n%s", n, s.log.String())
				}
			})
		})
	}
}

// A job never overlaps itself, and does not wait for another one: what was due while it ran is named, and the newest runs late.
func TestRunLongerThanAPeriod(t *testing.T) {
	test(t, func(t *testing.T, s *stage) {
		var running atomic.Int32
		slow := func(ctx context.Context, run schedule.Run) error {
			if running.Add(1) > 1 {
				t.Error("the job overlaps itself")
			}
			defer running.Add(-1)
			time.Sleep(150 * time.Second)
			return s.note(ctx, run)
		}
		a := s.start("a", setting{}, schedule.Job{Schedule: minutely, Do: slow}, schedule.Job{Name: "hung", Schedule: minutely, Do: func(ctx context.Context, _ schedule.Run) error { <-ctx.Done(); return nil }})
		time.Sleep(100 * time.Second)
		if err := a.RunNow(context.Background(), "mail"); !errors.Is(err, schedule.ErrRunning) {
			t.Error(err)
		}
		if m := s.mark("mail"); !m.Running() || m.Overdue(time.Now()) != 0 {
			t.Errorf("%+v", m)
		}
		time.Sleep(7 * time.Minute)
		s.want(1, 3, 6)
		gaps := s.mark("mail").Skipped
		if len(gaps) != 3 || !strings.HasPrefix(gaps[2].Reason, "the run before it lasted until ") || gaps[2].First.Minute() != 2 || !gaps[2].Last.Equal(gaps[2].First) {
			t.Errorf("%+v", gaps)
		}
	})
}

// How a run ended is recorded, with its error, and the next tick runs all the same.
func TestOutcomes(t *testing.T) {
	test(t, func(t *testing.T, s *stage) {
		do := map[fence.Outcome]func(ctx context.Context, _ schedule.Run) error{
			fence.OK:         s.note,
			fence.Failed:     func(context.Context, schedule.Run) error { return errors.New("no such\nfile") },
			fence.Panicked:   func(context.Context, schedule.Run) error { panic("no such file") },
			fence.TimedOut:   func(ctx context.Context, _ schedule.Run) error { <-ctx.Done(); return errors.New("no such file") },
			"timed out, nil": func(ctx context.Context, _ schedule.Run) error { <-ctx.Done(); return nil },
			fence.NothingDone: func(context.Context, schedule.Run) error {
				return fmt.Errorf("no such file: %w", schedule.ErrNothingDone)
			},
			fence.Removed:   func(ctx context.Context, _ schedule.Run) error { <-ctx.Done(); return errors.New("no such file") },
			fence.TermEnded: func(ctx context.Context, _ schedule.Run) error { <-ctx.Done(); return errors.New("no such file") },
			"goexit":        func(context.Context, schedule.Run) error { runtime.Goexit(); return nil },
			"dies":          func(context.Context, schedule.Run) error { select {} },
		}
		var jobs []schedule.Job
		for name, f := range do {
			job := schedule.Job{Name: string(name), Schedule: hourly, Do: f}
			if strings.HasPrefix(string(name), string(fence.TimedOut)) {
				job.Timeout = time.Minute
			}
			if name != "dies" {
				jobs = append(jobs, job)
			}
		}
		a := s.start("a", setting{}, jobs...)
		time.Sleep(62 * time.Minute)
		if !a.Remove(string(fence.Removed)) || a.Remove(string(fence.Removed)) {
			t.Error("Remove")
		}
		a.stop()
		for name := range do {
			if name == "dies" {
				continue
			}
			m, want := s.mark(string(name)), name
			switch name {
			case "goexit":
				want = fence.Failed
			case "timed out, nil":
				want = fence.TimedOut
			}
			if r := m.Run; r.Outcome != want || r.By != "a" || r.Began.Hour() != 1 || r.Ended.Before(r.Began) || r.Tick.Hour() != 1 {
				t.Errorf("%s: %+v", name, r)
			}
			if want := "no such file"; name != fence.OK && name != "goexit" && name != "timed out, nil" && !strings.Contains(m.Run.Error, want) {
				t.Errorf("%s: %+v", name, m.Run)
			}
			if late := m.Overdue(time.Now().Add(time.Hour)); name == fence.Removed && late != 0 || name != fence.Removed && late == 0 {
				t.Errorf("%s is overdue by %v", name, late)
			}
		}
		if s.lines("job failed") != 8 || s.lines("goroutine") == 0 {
			t.Errorf("%d lines", s.lines("job failed"))
		}
	})
}

// A leader that dies while a job runs leaves its tick half done: that is said, and the tick is not run again.
func TestLeaderDiesWhileAJobRuns(t *testing.T) {
	test(t, func(t *testing.T, s *stage) {
		hang := func(ctx context.Context, _ schedule.Run) error { time.Sleep(30 * time.Minute); return nil }
		s.start("a", setting{}, schedule.Job{Schedule: hourly, Do: hang})
		time.Sleep(time.Hour + time.Second)
		s.r.CutOff("a")
		b := s.start("b", setting{}, schedule.Job{Schedule: hourly})
		time.Sleep(2 * time.Minute)
		if m := s.mark("mail"); !b.e.IsLeader() || m.Run.Outcome != fence.Unknown || s.lines("an earlier term reported no end of a run") != 1 || len(s.ticks()) != 0 {
			t.Errorf("%+v\n%s", m, s.log.String())
		}
	})
}

// Jobs come and go while the leader works. One that has the name of a removed one begins when that has returned.
func TestJobsComeAndGo(t *testing.T) {
	test(t, func(t *testing.T, s *stage) {
		stubborn := func(context.Context, schedule.Run) error { time.Sleep(150 * time.Second); return nil }
		a := s.start("a", setting{}, schedule.Job{Schedule: minutely, Do: stubborn})
		time.Sleep(61 * time.Second)
		a.Remove("mail")
		a.add(schedule.Job{Schedule: minutely})
		time.Sleep(time.Minute)
		s.want()
		time.Sleep(4 * time.Minute) // 6:01
		s.want(3, 4, 5, 6)          // the newest one that the new job missed, late
		a.add(schedule.Job{Name: "bills", Schedule: schedule.Every(7 * time.Minute)})
		a.Remove("mail")
		s.r.Client("operator").Set(context.Background(), "mandate:{reports}:tick:foreign", "x", 0)
		a.add(schedule.Job{Name: "foreign", Schedule: minutely})
		time.Sleep(time.Second)
		if before := a.Check(); before == nil || !a.Remove("foreign") {
			t.Error(before)
		}
		time.Sleep(time.Second)
		if err := a.Check(); err != nil {
			t.Errorf("the problem of a removed job stays: %v", err)
		}
		time.Sleep(10 * time.Minute)
		if s.want(3, 4, 5, 6, 10); s.mark("mail").Overdue(time.Now()) != 0 {
			t.Error("a removed job is overdue")
		}
	})
}

// A job that does not return after its Timeout ends the term, and the next leader runs what is due; without a Timeout it may take its time.
func TestHungJob(t *testing.T) {
	test(t, func(t *testing.T, s *stage) {
		hang := func(context.Context, schedule.Run) error { time.Sleep(time.Hour); return nil }
		slow := schedule.Job{Name: "slow", Schedule: at(10), Do: hang}
		a := s.start("a", setting{probe: true}, slow, schedule.Job{Schedule: at(30), Timeout: time.Minute, Do: hang}, schedule.Job{Name: "bills", Schedule: minutely})
		time.Sleep(30*time.Minute + 50*time.Second)
		if !a.e.IsLeader() {
			t.Fatal("the term ended")
		}
		s.start("b", setting{}, schedule.Job{Name: "bills", Schedule: minutely})
		time.Sleep(40 * time.Second)
		if a.e.IsLeader() || s.lines("job mail has not returned for ") == 0 {
			t.Error(s.log.String())
		}
		time.Sleep(time.Minute)
		if ran := s.ticks(); !slices.Contains(ran, 31) || !slices.Contains(ran, 32) {
			t.Error(ran)
		}
	})
}

// A Schedule that panics stops its own job, for as long as it does.
func TestScheduleThatPanics(t *testing.T) {
	test(t, func(t *testing.T, s *stage) {
		var broken atomic.Bool
		a := s.start("a", setting{}, schedule.Job{Name: "bills", Schedule: minutely}, schedule.Job{Schedule: schedules(func(t time.Time) time.Time {
			if broken.Load() {
				panic("no calendar")
			}
			return minutely.Next(t)
		})})
		time.Sleep(90 * time.Second)
		broken.Store(true)
		time.Sleep(3 * time.Minute)
		if err := a.Check(); err == nil || !strings.Contains(err.Error(), "the Schedule of mail: panic: no calendar") || len(s.ticks()) != 5 {
			t.Errorf("%v, %v", err, s.ticks())
		}
		broken.Store(false)
		time.Sleep(time.Minute)
		if s.want(1, 1, 2, 3, 4, 4, 5, 5); a.Check() != nil || s.lines("problem with jobs") != 2 {
			t.Errorf("%v\n%s", a.Check(), s.log.String())
		}
	})
}

// Jobs of a leader whose work is not theirs are not run: that is said once, and Check fails.
func TestWorkIsNotTheJobs(t *testing.T) {
	test(t, func(t *testing.T, s *stage) {
		a := s.start("a", setting{work: func(ctx context.Context, _ *elector.Term) error { <-ctx.Done(); return nil }}, schedule.Job{Schedule: minutely})
		time.Sleep(time.Second)
		b := s.start("b", setting{}, schedule.Job{Schedule: minutely})
		time.Sleep(5 * time.Minute)
		if !a.e.IsLeader() || s.lines("the jobs are not run") != 1 || a.Check() == nil || b.Check() != nil {
			t.Errorf("%v, %v\n%s", a.Check(), b.Check(), s.log.String())
		}
		if err := a.RunNow(context.Background(), "mail"); err == nil || !strings.Contains(err.Error(), "its work is not Jobs.Work") {
			t.Error(err)
		}
		if err := b.RunNow(context.Background(), "mail"); !errors.Is(err, elector.ErrNotLeader) {
			t.Error(err)
		}
	})
}

// Work that ends before the term leaves the jobs alone, which is said; what is wrong with ticks is not said any more once one is taken.
func TestCheckIsTrue(t *testing.T) {
	test(t, func(t *testing.T, s *stage) {
		started := make(chan *replica, 1)
		work := func(ctx context.Context, term *elector.Term) error {
			a := <-started
			inner, cancel := context.WithTimeout(ctx, 10*time.Minute)
			defer cancel()
			_ = a.Work(inner, term)
			<-ctx.Done()
			return nil
		}
		long := func(context.Context, schedule.Run) error { time.Sleep(4 * time.Minute); return nil }
		a := s.start("a", setting{work: work, client: s.r.Client("ticks")}, schedule.Job{Schedule: at(3), Do: long})
		started <- a
		time.Sleep(150 * time.Second)
		heal := s.r.CutOff("ticks")
		time.Sleep(time.Minute)
		if a.Check() == nil {
			t.Error("Redis is away, and Check is content")
		}
		heal()
		time.Sleep(time.Minute)
		if err := a.Check(); err != nil || !s.mark("mail").Running() {
			t.Errorf("while the job runs: %v", err)
		}
		time.Sleep(10 * time.Minute)
		if err := a.Check(); err == nil || !strings.Contains(err.Error(), "is not Jobs.Work") {
			t.Errorf("after Work: %v", err)
		}
	})
}

// Ticks run by the clock of the host, however far that of Redis is away: which is said once, and by Check.
func TestClocksDiffer(t *testing.T) {
	for _, ahead := range []time.Duration{-300 * 24 * time.Hour, -2 * time.Hour, -30 * time.Second, 30 * time.Second, 2 * time.Hour, 300 * 24 * time.Hour} {
		test(t, func(t *testing.T, s *stage) {
			time.Sleep(10 * time.Minute)
			a := s.start("a", setting{ahead: ahead}, schedule.Job{Schedule: hourly, Within: time.Minute})
			time.Sleep(5 * time.Hour)
			differs := 0
			if ahead.Abs() > time.Minute {
				differs = 1
			}
			if n := len(s.ticks()); n != 5 || s.lines("problem with jobs\"") != differs || (a.Check() != nil) != (differs > 0) {
				t.Errorf("%v: %d ran, %v\n%s", ahead, n, a.Check(), s.log.String())
			}
		})
	}
}

// A clock that is set is noticed within a minute: forward, the newest tick runs and the others are named; back, none runs again.
// One that was far ahead when it took a tick blocks the job until somebody deletes the mark, which is said.
func TestClockIsSet(t *testing.T) {
	test(t, func(t *testing.T, s *stage) {
		var ahead atomic.Int64
		clock := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		a := s.start("a", setting{clock: clock}, schedule.Job{Schedule: at(30, 180, 190, 300)})
		time.Sleep(40 * time.Minute)
		ahead.Store(int64(155 * time.Minute)) // 3:15
		time.Sleep(61 * time.Second)
		if s.want(30, 190); s.lines("ticks were not run") != 1 {
			t.Error(s.log.String())
		}
		ahead.Store(0)
		time.Sleep(10 * time.Hour)
		s.want(30, 190, 300)
		ahead.Store(int64(1000 * time.Hour))
		a.add(schedule.Job{Name: "often", Schedule: minutely})
		time.Sleep(2 * time.Minute)
		ahead.Store(0)
		time.Sleep(time.Minute)
		before := len(s.ticks())
		time.Sleep(10 * time.Minute)
		if err := a.Check(); err == nil || !strings.Contains(err.Error(), "delete mandate:{reports}:tick:often") || len(s.ticks()) != before {
			t.Errorf("a job that waits for 1000 hours: %v, %v", err, s.ticks())
		}
		s.r.Client("operator").Del(context.Background(), "mandate:{reports}:tick:often")
		if time.Sleep(2 * time.Minute); a.Check() != nil || len(s.ticks()) < before+2 {
			t.Errorf("%v, %v", a.Check(), s.ticks())
		}
	})
}

// A run by hand is recorded as one, takes no tick, and ends with its caller or the term.
func TestRunNow(t *testing.T) {
	test(t, func(t *testing.T, s *stage) {
		a := s.start("a", setting{}, schedule.Job{Schedule: hourly}, schedule.Job{Name: "waits", Schedule: at(1000), Do: func(ctx context.Context, _ schedule.Run) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}})
		time.Sleep(30 * time.Minute)
		must(t, a.RunNow(context.Background(), "mail"))
		if m := s.mark("mail"); len(s.ticks()) != 1 || !m.Run.Tick.IsZero() || m.Run.Outcome != fence.OK || m.Run.Began.IsZero() || m.Next.Hour() != 1 {
			t.Errorf("%+v", m)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := a.RunNow(ctx, "waits"); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		go func() { time.Sleep(time.Minute); _ = a.e.Resign(context.Background()) }()
		var ended *elector.Ended
		if err := a.RunNow(context.Background(), "waits"); !errors.As(err, &ended) || s.mark("waits").Run.Outcome != fence.TermEnded {
			t.Errorf("%v, %+v", err, s.mark("waits").Run)
		}
		if err := a.RunNow(context.Background(), "bills"); err == nil || !strings.Contains(err.Error(), "no job") {
			t.Error(err)
		}
		time.Sleep(time.Minute) // it leads again
		var refused, ran atomic.Int32
		var calls sync.WaitGroup
		for range 10 {
			calls.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				if err := a.RunNow(ctx, "waits"); errors.Is(err, schedule.ErrRunning) {
					refused.Add(1)
				} else if errors.Is(err, context.DeadlineExceeded) {
					ran.Add(1)
				}
			})
		}
		if calls.Wait(); refused.Load() != 9 || ran.Load() != 1 {
			t.Errorf("%d ran at once, %d were refused", ran.Load(), refused.Load())
		}
		if err := a.RunNow(ctx, "mail"); !errors.Is(err, context.DeadlineExceeded) || s.mark("mail").Running() {
			t.Errorf("with a context that has ended: %v, %+v", err, s.mark("mail").Run)
		}
		s.r.CutOff("a")
		time.Sleep(2 * time.Minute)
		if err := a.RunNow(context.Background(), "mail"); err == nil {
			t.Error("it ran where nobody leads")
		}
	})
}

func TestBadJobs(t *testing.T) {
	test(t, func(t *testing.T, s *stage) {
		r := s.start("a", setting{}, schedule.Job{Schedule: minutely})
		for says, job := range map[string]schedule.Job{
			"two jobs":             {Name: "mail"},
			"1 to 255":             {Name: "mail {eu}"},
			"printable":            {Name: "mail\t"},
			"no Schedule or no Do": {Schedule: schedule.Schedule(nil)},
			"never has a tick":     {Schedule: at()}, // TestLatestTick has more of these
			"Within":               {Within: -1},
			"at least 1ms":         {Timeout: 30},
			"name the zone":        {Location: time.Local},
		} {
			if job.Name == "" {
				job.Name = "b"
			}
			if job.Schedule == nil && !strings.HasPrefix(says, "no Schedule") {
				job.Schedule = minutely
			}
			job.Do = s.note
			if err := r.Add(job); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v", says, err)
			}
		}
		el := r.e.Election()
		hangs := redis.NewClient(&redis.Options{ReadTimeout: -1})
		ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})
		defer hangs.Close()
		defer ring.Close()
		for says, c := range map[string]redis.UniversalClient{"may hang": hangs, "redis.Ring": ring, "is nil": nil} {
			if _, err := schedule.New(el, c); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v", says, err)
			}
		}
		if _, err := schedule.New(el, struct{ redis.UniversalClient }{hangs}); err != nil {
			t.Errorf("a wrapped client: %v", err)
		}
	})
}

// A request whose sender has sent it again is executed when its run has ended: the mark stays as it is, and what is owed stays owed.
func TestRequestExecutedLate(t *testing.T) {
	test(t, func(t *testing.T, s *stage) {
		client, redisOfTicks := s.r.Client("ticks"), &hanging{}
		client.AddHook(redisOfTicks)
		a := s.start("a", setting{client: client}, schedule.Job{Schedule: at(1)})
		time.Sleep(59 * time.Second)
		redisOfTicks.hangs(true)
		time.Sleep(3 * time.Second)
		redisOfTicks.hangs(false)
		time.Sleep(30 * time.Second)
		redisOfTicks.goesOn(func(int) []int { return []int{0} })
		if s.want(1); s.mark("mail").Running() || a.Check() != nil {
			t.Errorf("%+v, %v", s.mark("mail").Run, a.Check())
		}
	})
}

// hanging is a Redis that is stopped: it executes the requests when it goes on, in any order, and nobody waits for their answers.
type hanging struct {
	mu   sync.Mutex
	hung bool
	held []func()
}

func (h *hanging) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *hanging) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *hanging) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.mu.Lock()
		if !h.hung {
			h.mu.Unlock()
			return next(ctx, cmd)
		}
		h.held = append(h.held, func() { _ = next(context.Background(), redis.NewCmd(context.Background(), cmd.Args()...)) })
		h.mu.Unlock()
		<-ctx.Done()
		return ctx.Err()
	}
}

// hangs has it hang from here on, or no longer.
func (h *hanging) hangs(now bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hung = now
}

// goesOn executes what has been sent, by order.
func (h *hanging) goesOn(order func(n int) []int) {
	h.mu.Lock()
	held := h.held
	h.mu.Unlock()
	for _, i := range order(len(held)) {
		held[i]()
	}
	h.mu.Lock()
	h.held, h.hung = nil, false
	h.mu.Unlock()
}

// A Redis that hangs takes ticks when their sender has given them up: each is named as not run.
func TestTicksTakenTooLateAreNamed(t *testing.T) {
	inOrder := func(n int) (all []int) {
		for i := range n {
			all = append(all, i)
		}
		return all
	}
	for name, order := range map[string]func(int) []int{
		"in order":  inOrder,
		"reverse":   func(n int) []int { all := inOrder(n); slices.Reverse(all); return all },
		"random":    rand.New(rand.NewPCG(1, 1)).Perm,
		"another":   rand.New(rand.NewPCG(2, 1)).Perm,
		"the first": func(int) []int { return []int{0} },
	} {
		t.Run(name, func(t *testing.T) {
			test(t, func(t *testing.T, s *stage) {
				client, redisOfTicks := s.r.Client("ticks"), &hanging{}
				client.AddHook(redisOfTicks)
				begin := time.Now().Truncate(time.Minute)
				s.start("a", setting{client: client}, schedule.Job{Schedule: minutely})
				time.Sleep(2*time.Minute + 58*time.Second)
				redisOfTicks.hangs(true)
				time.Sleep(3*time.Minute + 14*time.Second)
				redisOfTicks.goesOn(order)
				time.Sleep(2 * time.Minute)
				last := s.mark("mail")
				for at := begin.Add(time.Minute); time.Since(at) > time.Minute; at = at.Add(time.Minute) {
					named := slices.ContainsFunc(last.Skipped, func(g fence.Skip) bool { return !at.Before(g.First) && !at.After(g.Last) })
					n := 0
					for _, run := range s.ran {
						if run.Tick.Equal(at) {
							n++
						}
					}
					if n > 1 || named == (n == 1) {
						t.Errorf("%v ran %d times, named %v", at, n, named)
					}
				}
				if n := s.lines("ticks were not run"); n == 0 || n != len(last.Skipped) {
					t.Errorf("%d lines for %+v\n%s", n, last.Skipped, s.log.String())
				}
			})
		})
	}
}
