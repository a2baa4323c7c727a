package electorasynq_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electorasynq"
	"github.com/mandate-dev/mandate/elector/electortest"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// connect is how a test connects asynq to its Redis.
type connect func() redis.UniversalClient

func (c connect) MakeRedisClient() interface{} { return c() }

// quiet is a scheduler without log.
var quiet = &asynq.SchedulerOpts{LogLevel: asynq.FatalLevel}

// stage has replicas of a program that enqueues a mail per minute.
type stage struct {
	t   *testing.T
	all []*elector.Elector

	mu   sync.Mutex
	errs []error // of the scheduler
}

func (s *stage) start(q *elector.Quorum, asynqRedis connect, id string, change ...func(*electorasynq.Task)) {
	t := s.t
	e, err := elector.New(q, elector.Config{Election: "reports", ID: id, Lease: 2 * time.Second, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	s.all = append(s.all, e)
	mail := electorasynq.Task{Spec: "* * * * *", Task: asynq.NewTask("mail", nil)}
	for _, f := range change {
		f(&mail)
	}
	options := *quiet
	options.PostEnqueueFunc = func(_ *asynq.TaskInfo, err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if err != nil {
			s.errs = append(s.errs, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := e.Run(ctx, electorasynq.Work(asynqRedis, &options, mail)); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
}

// pass makes the leader resign.
func (s *stage) pass() {
	for _, e := range s.all {
		if e.IsLeader() {
			_ = e.Resign(context.Background())
			return
		}
	}
}

// enqueued returns the ids of the tasks that wait.
func (s *stage) enqueued(asynqRedis connect) []string {
	inspector := asynq.NewInspector(asynqRedis)
	defer inspector.Close()
	all, err := inspector.ListPendingTasks("default", asynq.PageSize(1000))
	if err != nil {
		s.t.Fatal(err)
	}
	var ids []string
	for _, info := range all {
		ids = append(ids, info.ID)
	}
	return ids
}

// A task per minute is enqueued once per minute, whoever leads, and what two leaders enqueue at one tick is refused.
func TestEachTickIsEnqueuedOnce(t *testing.T) {
	electortest.Test(t, func(t *testing.T, r *electortest.Redis) {
		s := &stage{t: t}
		client := func(id string) connect { return func() redis.UniversalClient { return r.Client(id) } }
		for i := range 3 {
			id := fmt.Sprint(i)
			s.start(r.Quorum(id), client(id), id, func(k *electorasynq.Task) { k.CatchUp = true })
		}
		began := time.Now()
		for range 40 {
			time.Sleep(30*time.Second - time.Millisecond) // at each second change a tick is due
			s.pass()
		}
		time.Sleep(5 * time.Second) // the last tick is enqueued, too
		ids := map[string]bool{}
		for _, id := range s.enqueued(client("0")) {
			ids[id] = true
		}
		minutes := int(time.Since(began) / time.Minute)
		if want := minutes + 1; len(ids) != want { // the first, and the last
			t.Errorf("%d ticks were enqueued in %d minutes, want %d", len(ids), minutes, want)
		}
		for _, err := range s.errs {
			if !errors.Is(err, asynq.ErrTaskIDConflict) {
				t.Error(err)
			}
		}
	})
}

// A tick that has been enqueued is not caught up with by the next leader.
func TestCatchesUpOnceReal(t *testing.T) {
	server := servertest.Redis(t)
	q, err := elector.Open(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { q.Close() })
	client := connect(func() redis.UniversalClient { return redis.NewClient(&redis.Options{Addr: server.Addr()}) })
	s := &stage{t: t}
	for i := range 2 {
		s.start(q, client, fmt.Sprint(i), func(k *electorasynq.Task) { k.Spec, k.CatchUp = "@yearly", true })
	}
	for range 3 {
		servertest.Eventually(t, 20*time.Second, "one leads", func() bool { return s.all[0].IsLeader() || s.all[1].IsLeader() })
		time.Sleep(200 * time.Millisecond)
		s.pass()
	}
	if ids := s.enqueued(client); len(ids) != 1 || !strings.HasPrefix(ids[0], "mail:") {
		t.Errorf("enqueued %q", ids)
	}
}

func TestBadTasks(t *testing.T) {
	one := asynq.NewTask("mail", nil)
	for says, tasks := range map[string][]electorasynq.Task{
		"counts from when": {{Spec: "@every 5s", Task: one}},
		"expected exactly": {{Spec: "* * *", Task: one}},
		"without a task":   {{Spec: "* * * * *"}},
		"two tasks":        {{Spec: "* * * * *", Task: one}, {Spec: "@daily", Task: asynq.NewTask("mail", nil)}},
		"task of its own":  {{Spec: "* * * * *", Task: one, Name: "a"}, {Spec: "@daily", Task: one, Name: "b"}},
	} {
		err := electorasynq.Work(asynq.RedisClientOpt{}, quiet, tasks...)(t.Context(), nil)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}
