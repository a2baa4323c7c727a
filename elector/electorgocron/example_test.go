package electorgocron_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/go-co-op/gocron/v2"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electorgocron"
	"github.com/mandate-dev/mandate/elector/schedule"
)

// A job of gocron that runs on the leader, each tick once.
func ExampleNewJob() {
	embedded, err := miniredis.Run() // yours is a redis-server
	if err != nil {
		panic(err)
	}
	defer embedded.Close()
	quorum, err := elector.Open("redis://" + embedded.Addr())
	if err != nil {
		panic(err)
	}
	defer quorum.Close()
	client, err := elector.NewClient("redis://" + embedded.Addr())
	if err != nil {
		panic(err)
	}
	defer client.Close()
	e, err := elector.New(quorum, elector.Config{Election: "reports", Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		panic(err)
	}
	scheduler, err := gocron.NewScheduler()
	if err != nil {
		panic(err)
	}
	defer scheduler.Shutdown()

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
	if _, err := electorgocron.NewJob(jobs, scheduler, gocron.CronJob("* * * * * *", true), schedule.Config{Name: "mail", Do: func(ctx context.Context, run schedule.Run) error {
		once() // run.Tick is the time of the schedule, run.Token that of the term
		return nil
	}}); err != nil {
		panic(err)
	}
	scheduler.Start()
	fmt.Println(e.Run(ctx, jobs.Work))
	// Output:
	// sent
	// <nil>
}
