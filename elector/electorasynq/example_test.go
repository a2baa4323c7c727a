package electorasynq_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/robfig/cron/v3"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electorasynq"
	"github.com/mandate-dev/mandate/elector/schedule"
)

// open connects to an embedded Redis; yours is a redis-server.
func open() (embedded *miniredis.Miniredis, e *elector.Elector, client redis.UniversalClient, end func()) {
	embedded, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	quorum, err := elector.Open("redis://" + embedded.Addr())
	if err != nil {
		panic(err)
	}
	e, err = elector.New(quorum, elector.Config{Election: "reports", Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		panic(err)
	}
	client, err = elector.NewClient("redis://" + embedded.Addr())
	if err != nil {
		panic(err)
	}
	return embedded, e, client, func() { _ = client.Close(); _ = quorum.Close(); embedded.Close() }
}

// A periodic task that the leader enqueues, each tick once.
func ExampleNew() {
	embedded, e, client, end := open()
	defer end()
	queue := asynq.NewClient(asynq.RedisClientOpt{Addr: embedded.Addr()})
	defer queue.Close()

	mail := electorasynq.Task{Spec: "0 12 * * *", Task: asynq.NewTask("mail", nil, asynq.Retention(48*time.Hour))}
	tasks, err := electorasynq.New(e, client, queue, mail)
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	fmt.Println(e.Run(ctx, tasks.Work))
	// Output: <nil>
}

// A job of robfig/cron, or of its fork, that runs on the leader, each tick once.
func Example_cron() {
	_, e, client, end := open()
	defer end()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	once := sync.OnceFunc(func() {
		fmt.Println("sent")
		cancel() // the end of the example
	})

	jobs, err := schedule.New(e, client)
	if err != nil {
		panic(err)
	}
	everySecond, err := cron.ParseStandard("@every 1s")
	if err != nil {
		panic(err)
	}
	mail, err := jobs.Add(schedule.Config{Name: "mail", Next: everySecond.Next, Do: func(context.Context, schedule.Run) error {
		once()
		return nil
	}})
	if err != nil {
		panic(err)
	}
	crontab := cron.New()
	crontab.Schedule(mail, mail)
	crontab.Start()
	defer crontab.Stop()
	fmt.Println(e.Run(ctx, jobs.Work))
	// Output:
	// sent
	// <nil>
}
