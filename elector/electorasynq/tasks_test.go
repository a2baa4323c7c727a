package electorasynq_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	fork "github.com/netresearch/go-cron"
	"github.com/redis/go-redis/v9"
	"github.com/robfig/cron/v3"
	"go.uber.org/goleak"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electorasynq"
	"github.com/mandate-dev/mandate/elector/electortest"
	"github.com/mandate-dev/mandate/elector/internal/hostclock"
	"github.com/mandate-dev/mandate/elector/proof/calendar"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
	"github.com/mandate-dev/mandate/elector/schedule"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stage has replicas of a program that enqueues tasks.
type stage struct {
	t   *testing.T
	r   *electortest.Redis
	all []*elector.Elector

	mu  sync.Mutex
	log strings.Builder
}

func (s *stage) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.Write(p)
}

func (s *stage) logged() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

// start starts a replica of an election.
func (s *stage) start(q *elector.Quorum, election, id string, client, queue redis.UniversalClient, tasks ...electorasynq.Task) {
	t := s.t
	t.Helper()
	e, err := elector.New(q, elector.Config{Election: election, ID: id, Lease: 20 * time.Second, Cooldown: -1, Logger: slog.New(slog.NewTextHandler(s, nil))})
	if err != nil {
		t.Fatal(err)
	}
	s.all = append(s.all, e)
	all, err := electorasynq.New(e, client, asynq.NewClientFromRedisClient(queue), tasks...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := e.Run(ctx, all.Work); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
}

// join starts a replica on the embedded Redis.
func (s *stage) join(election, id string, tasks ...electorasynq.Task) {
	s.start(s.r.Quorum(id), election, id, s.r.Client(id), s.r.Client("queue"), tasks...)
}

// pass makes the leaders resign.
func (s *stage) pass() {
	for _, e := range s.all {
		if e.IsLeader() {
			_ = e.Resign(context.Background())
		}
	}
}

// enqueued returns the tasks that wait, whose queue is the default one.
func (s *stage) enqueued(c redis.UniversalClient) []*asynq.TaskInfo {
	all, err := asynq.NewInspectorFromRedisClient(c).ListPendingTasks("default", asynq.PageSize(1000))
	if err != nil && !errors.Is(err, asynq.ErrQueueNotFound) {
		s.t.Fatal(err)
	}
	return all
}

func test(t *testing.T, f func(t *testing.T, s *stage)) {
	electortest.Test(t, func(t *testing.T, r *electortest.Redis) { f(t, &stage{t: t, r: r}) })
}

func mail(options ...asynq.Option) electorasynq.Task {
	return electorasynq.Task{Spec: "* * * * *", Task: asynq.NewTask("mail", nil, options...)}
}

// A task per minute is enqueued once per minute, whoever leads, and whatever its clock says; and it learns its tick and token.
func TestEachTickIsEnqueuedOnce(t *testing.T) {
	test(t, func(t *testing.T, s *stage) {
		time.Sleep(time.Second)
		for i, ahead := range []time.Duration{-500 * time.Millisecond, 0, 500 * time.Millisecond} {
			id := fmt.Sprint("once-", i)
			hostclock.Set(id, ahead)
			t.Cleanup(func() { hostclock.Set(id, 0) })
			s.join("reports", id, electorasynq.Task{Spec: "* * * * *", Make: func(run schedule.Run) *asynq.Task {
				headers := map[string]string{"tick": run.Tick.Format(time.RFC3339), "token": fmt.Sprint(run.Token)}
				return asynq.NewTaskWithHeaders("mail", nil, headers, asynq.Retention(time.Hour))
			}})
		}
		for range 40 {
			time.Sleep(29*time.Second + 999*time.Millisecond) // at each second change a tick is due
			s.pass()
		}
		time.Sleep(5 * time.Second) // the last tick is enqueued, too
		all := s.enqueued(s.r.Client("queue"))
		ticks, tokens := map[string]bool{}, map[string]bool{}
		for _, task := range all {
			ticks[task.Headers["tick"]], tokens[task.Headers["token"]] = true, true
			if !strings.HasSuffix(task.Headers["tick"], ":00Z") || task.Retention != time.Hour {
				t.Errorf("%+v", task)
			}
		}
		if len(all) != 20 || len(ticks) != 20 || len(tokens) < 10 {
			t.Errorf("%d tasks were enqueued in 20 minutes, of %d ticks, by %d leaders", len(all), len(ticks), len(tokens))
		}
	})
}

// Options are the user's: Unique beside a change of the leader, a Retention and a deleted task change no tick; and two elections have
// their own.
func TestOptionsAreTheUsers(t *testing.T) {
	test(t, func(t *testing.T, s *stage) {
		unique := mail(asynq.Retention(48*time.Hour), asynq.Unique(90*time.Second))
		for _, region := range []string{"eu", "us"} {
			report := electorasynq.Task{Spec: "* * * * *", Task: asynq.NewTask("report", []byte(region))}
			for _, id := range []string{"a", "b"} {
				s.join("reports-"+region, id+region, report)
			}
		}
		s.join("mails", "m1", unique)
		s.join("mails", "m2", unique)
		queue := s.r.Client("queue")
		inspector := asynq.NewInspectorFromRedisClient(queue)
		count := map[string]int{}
		for range 20 {
			time.Sleep(30 * time.Second)
			s.pass()
			time.Sleep(time.Second)
			for _, task := range s.enqueued(queue) {
				count[task.Type+string(task.Payload)]++
				if task.Type == "mail" && task.Retention != 48*time.Hour {
					t.Errorf("Retention of %v", task.Retention)
				}
				if err := inspector.DeleteTask("default", task.ID); err != nil { // with it goes its Unique
					t.Error(err)
				}
			}
		}
		for what, n := range count {
			if n != 10 {
				t.Errorf("%s: %d of 10 ticks", what, n)
			}
		}
		if len(count) != 3 {
			t.Errorf("%v", count)
		}
	})
}

// What the queue refuses is logged, and ends nothing.
func TestRefusedTaskIsLogged(t *testing.T) {
	test(t, func(t *testing.T, s *stage) {
		s.join("reports", "a", mail(asynq.Unique(time.Hour)))
		time.Sleep(150 * time.Second)
		if n := len(s.enqueued(s.r.Client("queue"))); n != 1 {
			t.Errorf("%d tasks", n)
		}
		if n := strings.Count(s.logged(), "task already exists"); n != 1 || !s.all[0].IsLeader() {
			t.Errorf("%d lines:\n%s", n, s.logged())
		}
	})
}

// A queue that hangs when a term begins and ends costs neither the term nor time.
func TestQueueIsAway(t *testing.T) {
	test(t, func(t *testing.T, s *stage) {
		heal := s.r.CutOff("queue")
		for _, id := range []string{"a", "b"} {
			s.join("reports", id, mail())
		}
		time.Sleep(3*time.Minute + time.Second)
		for _, e := range s.all {
			if !e.IsLeader() {
				continue
			}
			began := time.Now()
			_ = e.Resign(context.Background())
			if took := time.Since(began); took > 200*time.Millisecond {
				t.Errorf("the end of a term took %v", took)
			}
		}
		time.Sleep(time.Second)
		if !s.all[0].IsLeader() && !s.all[1].IsLeader() {
			t.Error("nobody leads")
		}
		heal()
		time.Sleep(2 * time.Minute)
		if n := len(s.enqueued(s.r.Client("queue"))); n < 2 {
			t.Errorf("%d tasks", n)
		}
	})
}

// A queue that can't be connected to is tried again: the tick is enqueued late, once.
func TestQueueIsRestartedReal(t *testing.T) {
	server := servertest.Redis(t)
	q, err := elector.Open(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { q.Close() })
	s := &stage{t: t}
	dead := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
	t.Cleanup(func() { dead.Close() })
	s.start(q, "reports", "a", server.Client(t), dead, electorasynq.Task{Spec: "@every 1s", Task: asynq.NewTask("mail", nil)})
	servertest.Eventually(t, 20*time.Second, "it is tried again", func() bool {
		return strings.Count(s.logged(), "the tick is to run again") > 1
	})
	if !s.all[0].IsLeader() {
		t.Error("the term has ended")
	}
}

func TestBadTasks(t *testing.T) {
	test(t, func(t *testing.T, s *stage) {
		e, err := elector.New(s.r.Quorum("a"), elector.Config{Election: "reports"})
		if err != nil {
			t.Fatal(err)
		}
		queue := asynq.NewClientFromRedisClient(s.r.Client("queue"))
		one := asynq.NewTask("mail", nil)
		for says, tasks := range map[string][]electorasynq.Task{
			"":                  {{Spec: "@every 5s", Task: one}, {Spec: "CRON_TZ=Asia/Tokyo 0 12 * * *", Task: one, Name: "b"}},
			"expected exactly":  {{Spec: "* * *", Task: one}},
			"empty spec":        {{Spec: "CRON_TZ=UTC", Task: one}},
			"unknown time zone": {{Spec: "TZ=Europe/Atlantis 0 12 * * *", Task: one}},
			"has no Task":       {{Spec: "* * * * *"}},
			"two jobs":          {{Spec: "* * * * *", Task: one}, {Spec: "@daily", Task: asynq.NewTask("mail", nil)}},
			"braces":            {{Spec: "* * * * *", Task: one, Name: "mail {eu}"}},
			"typename":          {{Spec: "* * * * *", Task: asynq.NewTask("", nil), Name: "b"}},
			"task ID cannot":    {{Spec: "* * * * *", Task: one, Options: []asynq.Option{asynq.TaskID("")}}},
			"Unique TTL":        {{Spec: "* * * * *", Task: asynq.NewTask("mail", nil, asynq.Unique(time.Millisecond))}},
		} {
			if _, err := electorasynq.New(e, s.r.Client("a"), queue, tasks...); says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
				t.Errorf("%q: %v", says, err)
			}
		}
		if _, err := electorasynq.New(e, s.r.Client("a"), nil); err == nil {
			t.Error("no queue was accepted")
		}
	})
}

// A spring with robfig/cron.
func TestCalendarOfCron(t *testing.T) {
	calendar.Test(t, "2026-03-01", 60, 300, crontab(t, func() scheduler[cron.Schedule] {
		c := cron.New()
		return scheduler[cron.Schedule]{cron.ParseStandard, func(s *schedule.Job, run func()) { c.Schedule(s, cron.FuncJob(run)) }, c.Start, func() { c.Stop() }}
	}))
}

// An autumn with its fork.
func TestCalendarOfGoCron(t *testing.T) {
	calendar.Test(t, "2026-10-20", 20, 100, crontab(t, func() scheduler[fork.Schedule] {
		c := fork.New()
		return scheduler[fork.Schedule]{fork.ParseStandard, func(s *schedule.Job, run func()) { _, _ = c.ScheduleJob(s, fork.FuncJob(run)) }, c.Start, func() { c.Stop() }}
	}))
}

// scheduler is robfig/cron or its fork.
type scheduler[S cron.Schedule] struct {
	parse       func(crontab string) (S, error)
	add         func(*schedule.Job, func())
	start, stop func()
}

func crontab[S cron.Schedule](t *testing.T, open func() scheduler[S]) calendar.Start {
	return func(ctx context.Context, e *elector.Elector, client redis.UniversalClient, jobs []calendar.Job, ran func(string, time.Time)) elector.Work {
		all, err := schedule.New(e, client)
		if err != nil {
			t.Fatal(err)
		}
		c := open()
		for _, j := range jobs {
			ticks, err := c.parse(j.Crontab)
			if err != nil {
				t.Fatal(err)
			}
			job, err := all.Add(schedule.Config{Name: j.Name, Next: ticks.Next, Location: j.Location, Do: func(_ context.Context, run schedule.Run) error {
				ran(run.Job, run.Tick)
				return nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			c.add(job, func() { _ = job.RunContext(ctx) })
		}
		c.start()
		context.AfterFunc(ctx, c.stop)
		return all.Work
	}
}

// queue takes all tasks, and says when each was enqueued.
type queue struct {
	got func(payload string)
}

func (queue) DialHook(next redis.DialHook) redis.DialHook { return next }

func (q queue) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		if c, ok := cmd.(*redis.Cmd); ok && strings.HasPrefix(cmd.Name(), "eval") {
			for _, arg := range cmd.Args() {
				if encoded, ok := arg.([]byte); ok {
					q.got(string(encoded))
				}
			}
			c.SetVal(int64(1))
		}
		return nil
	}
}

func (queue) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// stamp is a tick in a task.
var stamp = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:]{8}Z`)

// Days with asynq, whose tasks have their ticks in a header.
func TestCalendarOfAsynq(t *testing.T) {
	calendar.Test(t, "2026-10-10", 30, 150, func(ctx context.Context, e *elector.Elector, client redis.UniversalClient, jobs []calendar.Job, ran func(string, time.Time)) elector.Work {
		var tasks []electorasynq.Task
		for _, j := range jobs {
			tasks = append(tasks, electorasynq.Task{Spec: j.Crontab, Location: j.Location, Make: func(run schedule.Run) *asynq.Task {
				return asynq.NewTaskWithHeaders(j.Name, nil, map[string]string{"tick": run.Tick.UTC().Format(time.RFC3339)})
			}})
		}
		var mu sync.Mutex
		hooked := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
		context.AfterFunc(ctx, func() { _ = hooked.Close() })
		hooked.AddHook(queue{func(encoded string) {
			mu.Lock()
			defer mu.Unlock()
			for _, j := range jobs {
				if strings.Contains(encoded, j.Name) {
					tick, err := time.Parse(time.RFC3339, stamp.FindString(encoded))
					if err != nil {
						t.Error(err)
					}
					ran(j.Name, tick)
				}
			}
		}})
		all, err := electorasynq.New(e, client, asynq.NewClientFromRedisClient(hooked), tasks...)
		if err != nil {
			t.Fatal(err)
		}
		return all.Work
	})
}
