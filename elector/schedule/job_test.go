package schedule_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electortest"
	"github.com/mandate-dev/mandate/elector/fence"
	"github.com/mandate-dev/mandate/elector/internal/hostclock"
	"github.com/mandate-dev/mandate/elector/schedule"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stage is what the replicas of a test share.
type stage struct {
	t *testing.T
	r *electortest.Redis

	mu  sync.Mutex
	ran []time.Time
	log bytes.Buffer
}

func (s *stage) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.Write(p)
}

// lines returns how many lines of all logs hold a text.
func (s *stage) lines(text string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Count(s.log.String(), text)
}

func (s *stage) ticks() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.ran)
}

// replica is one process, whose scheduler is as simple as can be.
type replica struct {
	e    *elector.Elector
	jobs *schedule.Jobs
	stop context.CancelFunc // of its elector
}

// start starts a replica with one job; clients are the Redis of its ticks, instead of that of the election.
func (s *stage) start(id string, c schedule.Config, clients ...redis.UniversalClient) *replica {
	t := s.t
	t.Helper()
	e, err := elector.New(s.r.Quorum(id), elector.Config{Election: "reports", ID: id, Lease: 10 * time.Second, Logger: slog.New(slog.NewTextHandler(s, nil))})
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := schedule.New(e, append(clients, s.r.Client(id))[0])
	if err != nil {
		t.Fatal(err)
	}
	if c.Name == "" {
		c.Name = "mail"
	}
	if c.Do == nil {
		c.Do = func(_ context.Context, run schedule.Run) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.ran = append(s.ran, run.Tick)
			return nil
		}
	}
	job, err := jobs.Add(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = e.Run(ctx, jobs.Work) })
	end, cancelTimer := context.WithCancel(context.Background())
	running.Go(func() {
		for at := job.Next(time.Now()); ; at = job.Next(at.Add(2 * time.Second)) { // as gocron does: from the tick, not from the clock
			select {
			case <-end.Done():
				return
			case <-time.After(time.Until(at)):
				running.Go(job.Run)
			}
		}
	})
	t.Cleanup(func() { cancel(); cancelTimer(); running.Wait() })
	return &replica{e, jobs, cancel}
}

func test(t *testing.T, f func(t *testing.T, s *stage)) {
	electortest.Test(t, func(t *testing.T, r *electortest.Redis) { f(t, &stage{t: t, r: r}) })
}

var hourly, minutely = schedule.Every(time.Hour), schedule.Every(time.Minute)

// The first deploy catches up with nothing; a tick of which nobody led in time runs late; one that is too old is named.
func TestMissedTicks(t *testing.T) {
	test(t, func(t *testing.T, s *stage) {
		begin := time.Now().Truncate(time.Hour) // the bubble begins at midnight
		time.Sleep(30 * time.Minute)
		a := s.start("a", schedule.Config{Next: hourly, Within: 20 * time.Minute})
		time.Sleep(20 * time.Minute)
		a.stop() // at 0:50
		if n := len(s.ticks()); n != 0 {
			t.Fatalf("the first deploy ran %v", s.ticks())
		}
		time.Sleep(20 * time.Minute) // 1:10
		b := s.start("b", schedule.Config{Next: hourly, Within: 20 * time.Minute})
		time.Sleep(10 * time.Minute)
		b.stop()
		if ran := s.ticks(); len(ran) != 1 || !ran[0].Equal(begin.Add(time.Hour)) {
			t.Fatalf("late: %v", ran)
		}
		time.Sleep(2*time.Hour + 5*time.Minute) // 3:25: two ticks are too old
		s.start("c", schedule.Config{Next: hourly, Within: 20 * time.Minute})
		time.Sleep(time.Hour)
		if ran := s.ticks(); len(ran) != 2 || !ran[1].Equal(begin.Add(4*time.Hour)) {
			t.Fatalf("too old: %v", ran)
		}
		last := s.last("mail")
		if len(last.Skipped) != 1 || !last.Skipped[0].After.Equal(begin.Add(time.Hour)) || !last.Skipped[0].Until.Equal(begin.Add(3*time.Hour)) ||
			last.Skipped[0].Reason != "no leader ran it in time; too old to run late" {
			t.Errorf("%+v", last.Skipped)
		}
		if n := s.lines("ticks were not run"); n != 1 {
			t.Errorf("%d lines:\n%s", n, s.log.String())
		}
	})
}

// The first tick of a changed schedule is the next one: what was not due by the old one was not missed.
func TestScheduleChanges(t *testing.T) {
	test(t, func(t *testing.T, s *stage) {
		time.Sleep(30 * time.Minute)
		a := s.start("a", schedule.Config{Next: hourly})
		time.Sleep(10*time.Minute + 30*time.Second)
		a.stop()
		s.start("b", schedule.Config{Next: minutely})
		time.Sleep(20 * time.Second)
		if ran := s.ticks(); len(ran) != 0 {
			t.Errorf("the new schedule catches up with %v", ran)
		}
		time.Sleep(40 * time.Second)
		if ran := s.ticks(); len(ran) != 1 || s.lines("ticks were not run") != 0 {
			t.Errorf("%v ran:\n%s", ran, s.log.String())
		}
	})
}

// last returns the mark of a job.
func (s *stage) last(job string) fence.Taken {
	e, err := s.r.Quorum("reader").Election("reports")
	if err != nil {
		s.t.Fatal(err)
	}
	once, err := fence.NewOnce(s.r.Client("reader"), e)
	if err != nil {
		s.t.Fatal(err)
	}
	taken, err := once.Last(context.Background(), job)
	if err != nil {
		s.t.Error(err)
	}
	return taken
}

// A Redis of the ticks that is away: a line when it begins and one when it has ended, Check says it, the newest tick runs late, and
// the ones before are named with the reason. It does not delay a handover.
func TestRedisOfTheTicksIsAway(t *testing.T) {
	test(t, func(t *testing.T, s *stage) {
		client := s.r.Client("ticks")
		a := s.start("a", schedule.Config{Next: minutely}, client)
		time.Sleep(90 * time.Second)
		heal := s.r.CutOff("ticks")
		time.Sleep(4*time.Minute + 10*time.Second)
		if err := a.jobs.Check(); err == nil {
			t.Error("Check is content")
		}
		if n := s.lines("cannot take ticks"); n != 1 {
			t.Errorf("%d lines", n)
		}
		heal()
		time.Sleep(15 * time.Second) // before the next tick
		if n := len(s.ticks()); n != 2 || a.jobs.Check() != nil || s.lines("can take ticks again") != 1 {
			t.Errorf("%v, %v", s.ticks(), a.jobs.Check())
		}
		if last := s.last("mail"); len(last.Skipped) != 1 || !strings.Contains(last.Skipped[0].Reason, "it could not be taken: ") || strings.Contains(last.Skipped[0].Reason, "20") {
			t.Errorf("%+v", last)
		}
		s.r.CutOff("ticks")
		time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute + time.Second))) // a tick is being taken
		began := time.Now()
		if err := a.e.Resign(context.Background()); err != nil {
			t.Error(err)
		}
		for a.e.IsLeader() {
			time.Sleep(time.Millisecond)
		}
		if took := time.Since(began); took > 200*time.Millisecond || a.jobs.Check() != nil {
			t.Errorf("the end of the term took %v: %v", took, a.jobs.Check())
		}
	})
}

// A clock that is set back makes the timer early: the tick still runs, once, in its time.
func TestTimersThatAreEarly(t *testing.T) {
	test(t, func(t *testing.T, s *stage) {
		s.start("early", schedule.Config{Next: minutely})
		t.Cleanup(func() { hostclock.Set("early", 0) })
		time.Sleep(30 * time.Second)
		for range 5 {
			hostclock.Set("early", 1500*time.Millisecond)
			time.Sleep(time.Minute) // the timer of the next tick is set by that clock
			hostclock.Set("early", 0)
			time.Sleep(time.Minute)
		}
		time.Sleep(30 * time.Second)
		if ran := s.ticks(); len(ran) != 10 {
			t.Errorf("%v", ran)
		}
		for _, tick := range s.ticks() {
			if !tick.Equal(tick.Truncate(time.Minute)) {
				t.Errorf("a tick at %v", tick)
			}
		}
	})
}

// The context of a job ends with the term; what it did not do runs on the next leader.
func TestJobEndsWithTheTerm(t *testing.T) {
	test(t, func(t *testing.T, s *stage) {
		var ended []error
		begun := make(chan schedule.Run, 10)
		wait := func(ctx context.Context, run schedule.Run) error {
			begun <- run
			if len(ended) > 0 {
				return nil
			}
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Minute):
				t.Error("the context of the job does not end")
			}
			ended = append(ended, context.Cause(ctx))
			return schedule.ErrAgain
		}
		replicas := []*replica{s.start("a", schedule.Config{Next: minutely, Do: wait}), s.start("b", schedule.Config{Next: minutely, Do: wait})}
		first := <-begun
		for _, r := range replicas {
			if r.e.IsLeader() {
				if r.e.Term().Token() != first.Token {
					t.Error("a run with another token")
				}
				_ = r.e.Resign(context.Background())
				break
			}
		}
		second := <-begun
		if !second.Tick.Equal(first.Tick) || second.Token <= first.Token || time.Since(second.Tick) > 5*time.Second {
			t.Errorf("%+v after %+v, %v late", second, first, time.Since(second.Tick))
		}
		var why *elector.Ended
		if len(ended) != 1 || !errors.As(ended[0], &why) {
			t.Errorf("%v", ended)
		}
	})
}

func TestBadJobs(t *testing.T) {
	test(t, func(t *testing.T, s *stage) {
		r := s.start("a", schedule.Config{Next: minutely})
		do := func(context.Context, schedule.Run) error { return nil }
		for says, c := range map[string]schedule.Config{
			"two jobs":         {Name: "mail", Next: minutely, Do: do},
			"1 to 255":         {Name: "mail {eu}", Next: minutely, Do: do},
			"printable":        {Name: "mail\t", Next: minutely, Do: do},
			"no Next or no Do": {Name: "b", Next: minutely},
			"no tick":          {Name: "b", Next: func(time.Time) time.Time { return time.Time{} }, Do: do},
			"Within":           {Name: "b", Next: minutely, Do: do, Within: -1},
		} {
			if _, err := r.jobs.Add(c); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v", says, err)
			}
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
				s.start("a", schedule.Config{Next: minutely}, client)
				time.Sleep(2*time.Minute + 58*time.Second)
				redisOfTicks.mu.Lock()
				redisOfTicks.hung = true
				redisOfTicks.mu.Unlock()
				time.Sleep(3*time.Minute + 14*time.Second)
				redisOfTicks.goesOn(order)
				time.Sleep(2 * time.Minute)
				last, ran := s.last("mail"), s.ticks()
				for at := begin.Add(time.Minute); time.Since(at) > time.Minute; at = at.Add(time.Minute) {
					named := slices.ContainsFunc(last.Skipped, func(g fence.Skip) bool { return g.After.Before(at) && !at.After(g.Until) })
					n := 0
					for _, tick := range ran {
						if tick.Equal(at) {
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
