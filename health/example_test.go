package health_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mandate-dev/mandate/health"
)

func ExampleAll() {
	db := health.Func(func(context.Context) error { return errors.New("connection refused") })
	disk := health.FromCheck(func() error { return errors.New("full") })

	err := health.All(health.Named("db", db), health.Named("disk", disk)).Check(context.Background())
	fmt.Println(err)
	// Output: db: connection refused; disk: full
}

func ExampleHeartbeat() {
	progress := health.NewHeartbeat(20 * time.Millisecond)
	runner, err := health.NewRunner(progress, health.Settings{})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	started := runner.Changed()
	done := make(chan error)
	go func() { done <- runner.RunArmed(ctx) }()
	<-started

	progress.Beat()          // a batch is done
	stop := runner.Changed() // and then nothing moves any more
	<-stop
	fmt.Println(runner.Status().Healthy)

	cancel()
	fmt.Println(<-done)
	// Output:
	// false
	// <nil>
}

func ExampleRunner() {
	probe := health.Named("db", health.Func(func(context.Context) error { return nil }))
	runner, err := health.NewRunner(probe, health.Settings{Interval: 5 * time.Second, Failures: 2})
	if err != nil {
		panic(err)
	}
	fmt.Println(runner.Status().Err)

	ctx, cancel := context.WithCancel(context.Background())
	changed := runner.Changed()
	done := make(chan error)
	go func() { done <- runner.Run(ctx) }()
	<-changed
	fmt.Println(runner.Status().Healthy)

	cancel()
	<-done
	// Output:
	// health: the probe runner has not started
	// true
}
