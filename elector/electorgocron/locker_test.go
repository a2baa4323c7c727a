package electorgocron_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
	"github.com/jonboulle/clockwork"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electorgocron"
	"github.com/mandate-dev/mandate/elector/electortest"
	"github.com/mandate-dev/mandate/elector/fence"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestEachTickRunsOnce: a job per second runs once per second, although clocks differ by up to a second and the leader changes all
// the time; and the release waits for the job.
func TestEachTickRunsOnce(t *testing.T) {
	electortest.Test(t, func(t *testing.T, r *electortest.Redis) {
		checkOnce(t, 60, 0, func(id string) (*elector.Quorum, redis.UniversalClient) { return r.Quorum(id), r.Client(id) })
	})
}

// slow delays the answers of scripts, on their way back.
type slow struct{ by time.Duration }

func (slow) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h slow) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if strings.HasPrefix(cmd.Name(), "eval") {
			time.Sleep(h.by)
		}
		return err
	}
}

func (slow) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// Regression: a tick whose answer came after the term had ended ran its job beside the next leader.
func TestAnswerAfterTheTermRunsNoJob(t *testing.T) {
	electortest.Test(t, func(t *testing.T, r *electortest.Redis) {
		e, err := elector.New(r.Quorum("a"), elector.Config{Election: "reports", ID: "a", Lease: 2 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		client := r.Client("ticks")
		client.AddHook(slow{by: 4 * time.Second})
		ticks, err := fence.NewOnce(client, e.Election())
		if err != nil {
			t.Fatal(err)
		}
		scheduler, err := gocron.NewScheduler()
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		ran, late := 0, 0
		count := func(n *int) { mu.Lock(); defer mu.Unlock(); *n++ }
		jobs := electorgocron.Locker{Gate: new(elector.Gate), Ticks: ticks, Timeout: 10 * time.Second}
		if _, err := jobs.NewJob(scheduler, "mail", "* * * * * *", gocron.NewTask(func() { count(&ran) }),
			gocron.WithEventListeners(gocron.AfterLockError(func(_ uuid.UUID, _ string, err error) {
				if strings.Contains(err.Error(), "meanwhile") && errors.Is(err, elector.ErrNotLeader) {
					count(&late)
				}
			}))); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() { _ = e.Run(ctx, jobs.Gate.Work) })
		for !e.IsLeader() {
			time.Sleep(time.Millisecond)
		}
		scheduler.Start()
		time.Sleep(1200 * time.Millisecond) // a tick has been requested
		go func() { _ = e.Resign(context.Background()) }()
		time.Sleep(4 * time.Second)
		cancel()
		wg.Wait()
		if err := scheduler.Shutdown(); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		if ran != 0 || late == 0 {
			t.Errorf("%d jobs ran, %d ticks came late", ran, late)
		}
	})
}

func TestEachTickRunsOnceReal(t *testing.T) {
	server := servertest.Redis(t)
	checkOnce(t, 3, 3, func(string) (*elector.Quorum, redis.UniversalClient) {
		q, err := elector.Open(server.URL())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { q.Close() })
		return q, server.Client(t)
	})
}

// stage is what the replicas of a test share.
type stage struct {
	t *testing.T

	mu    sync.Mutex
	all   []*elector.Elector
	ticks []time.Time // that ran, in their order
}

// ran notes a tick whose job is about to return.
func (s *stage) ran(by *elector.Elector, tick time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.all {
		if e != by && e.IsLeader() {
			s.t.Error("another one leads while a job runs")
		}
	}
	s.ticks = append(s.ticks, tick)
}

// clock is ahead of that of the test.
type clock struct {
	clockwork.Clock
	ahead time.Duration
}

func (c clock) Now() time.Time { return c.Clock.Now().Add(c.ahead) }

// start starts a replica, with a scheduler of its own.
func (s *stage) start(q *elector.Quorum, client redis.UniversalClient, id string, ahead time.Duration) {
	t := s.t
	e, err := elector.New(q, elector.Config{Election: "reports", ID: id, Lease: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.all = append(s.all, e)
	s.mu.Unlock()
	gate := new(elector.Gate)
	ticks, err := fence.NewOnce(client, e.Election())
	if err != nil {
		t.Fatal(err)
	}
	own := clock{clockwork.NewRealClock(), ahead}
	scheduler, err := gocron.NewScheduler(gocron.WithClock(own))
	if err != nil {
		t.Fatal(err)
	}
	job := func(ctx context.Context) {
		taken, err := ticks.Last(ctx, "mail")
		if err != nil || taken.By != id {
			t.Errorf("%s runs what %q took, %v", id, taken.By, err)
		}
		time.Sleep(50 * time.Millisecond)
		s.ran(e, taken.Tick)
	}
	skipped := func(_ uuid.UUID, _ string, err error) {
		if !errors.Is(err, elector.ErrNotLeader) && !errors.Is(err, fence.ErrRan) && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	later := func() time.Time { return own.Now().Add(time.Millisecond) } // on a real machine no timer fires in time
	jobs := electorgocron.Locker{Gate: gate, Ticks: ticks, By: id}.WithClock(later)
	mail, err := jobs.NewJob(scheduler, "mail", "* * * * * *", gocron.NewTask(job), gocron.WithEventListeners(gocron.AfterLockError(skipped)))
	if err != nil {
		t.Fatal(err)
	}
	scheduler.Start()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = e.Run(ctx, jobs.CatchUp(mail)) })
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		if err := scheduler.Shutdown(); err != nil {
			t.Error(err)
		}
	})
}

func checkOnce(t *testing.T, changes, mayLose int, connect func(id string) (*elector.Quorum, redis.UniversalClient)) {
	s := &stage{t: t}
	for i, ahead := range []time.Duration{-500 * time.Millisecond, 0, 500 * time.Millisecond} {
		id := fmt.Sprint(i)
		q, client := connect(id)
		s.start(q, client, id, ahead)
	}
	for range changes {
		time.Sleep(1700 * time.Millisecond)
		for _, e := range s.all {
			if e.IsLeader() {
				_ = e.Resign(context.Background())
				break
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := map[time.Time]bool{}
	for _, tick := range s.ticks {
		if seen[tick] || !tick.Equal(tick.Truncate(time.Second)) {
			t.Errorf("the tick %v ran twice, or is none of the schedule", tick)
		}
		seen[tick] = true
	}
	// The next leader catches up with what it has skipped before; unless the clock of that one is a tick ahead.
	for tick := s.ticks[0]; tick.Before(s.ticks[len(s.ticks)-1]); tick = tick.Add(time.Second) {
		if !seen[tick] {
			mayLose--
		}
	}
	if mayLose < 0 {
		t.Errorf("%d ticks too many are lost: %v ran", -mayLose, s.ticks)
	}
	if want := int(1.7*float64(changes)) - 3; len(s.ticks) < want {
		t.Errorf("%d ticks ran, at least %d were due", len(s.ticks), want)
	}
}

func TestBadJobs(t *testing.T) {
	s, err := gocron.NewScheduler()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown()
	client := redis.NewClient(&redis.Options{})
	defer client.Close()
	q, err := elector.NewQuorum(client)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	e, err := q.Election("reports")
	if err != nil {
		t.Fatal(err)
	}
	ticks, err := fence.NewOnce(client, e)
	if err != nil {
		t.Fatal(err)
	}
	l := electorgocron.Locker{Gate: new(elector.Gate), Ticks: ticks}
	for spec, says := range map[string]string{"@every 5s": "counts from when this process began", "61 * * * *": "above maximum", "": "mail"} {
		if _, err := l.NewJob(s, "mail", spec, gocron.NewTask(func() {})); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", spec, err)
		}
	}
	if _, err := (electorgocron.Locker{}).NewJob(s, "mail", "* * * * *", gocron.NewTask(func() {})); err == nil {
		t.Error("a Locker without a Gate was accepted")
	}
	if err := l.IsLeader(t.Context()); !errors.Is(err, elector.ErrNotLeader) {
		t.Error(err)
	}
}
