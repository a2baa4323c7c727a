package elector_test

import (
	"context"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/mandate-dev/mandate/elector"
)

// Of all replicas of a worker, only the leader polls.
func Example() {
	redis := embeddedRedis() // yours is a redis-server
	defer redis.Close()
	ctx, stop := context.WithTimeout(context.Background(), time.Minute) // yours is signal.NotifyContext
	defer stop()

	quorum, err := elector.Open("redis://" + redis.Addr())
	if err != nil {
		panic(err)
	}
	defer quorum.Close()
	candidate, err := elector.New(quorum, elector.Config{Election: "orders-poller"})
	if err != nil {
		panic(err)
	}
	err = candidate.Run(ctx, func(ctx context.Context, term *elector.Term) error {
		fmt.Println("I lead:", term.Valid()) // poll until ctx ends
		stop()                               // as SIGTERM would
		<-ctx.Done()
		fmt.Println(context.Cause(ctx))
		return nil
	})
	fmt.Println("Run:", err)
	// Output:
	// I lead: true
	// term ended: shutdown
	// Run: <nil>
}

// A job of a scheduler runs on the leader only, and the next leader begins after it has
// returned.
func ExampleGate() {
	redis := embeddedRedis()
	defer redis.Close()
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)

	quorum, err := elector.Open("redis://" + redis.Addr())
	if err != nil {
		panic(err)
	}
	defer quorum.Close()
	candidate, err := elector.New(quorum, elector.Config{Election: "nightly-jobs"})
	if err != nil {
		panic(err)
	}
	var gate elector.Gate
	ended := make(chan error)
	go func() { ended <- candidate.Run(ctx, gate.Work) }()

	job := func() error { // what the scheduler of your choice calls, in every replica
		return gate.Do(ctx, func(ctx context.Context, term *elector.Term) error {
			fmt.Println("working under a term:", term.Valid())
			return nil
		})
	}
	for job() != nil { // elector.ErrNotLeader: not elected yet
		time.Sleep(time.Millisecond)
	}
	stop()
	fmt.Println("Run:", <-ended)
	// Output:
	// working under a term: true
	// Run: <nil>
}

// Leader for life: lead until the program ends or the lease is lost.
func ExampleElector_Campaign() {
	redis := embeddedRedis()
	defer redis.Close()
	ctx := context.Background()

	quorum, err := elector.Open("redis://" + redis.Addr())
	if err != nil {
		panic(err)
	}
	defer quorum.Close()
	candidate, err := elector.New(quorum, elector.Config{Election: "orders-poller"})
	if err != nil {
		panic(err)
	}
	term, err := candidate.Campaign(ctx) // blocks until this process leads
	if err != nil {
		panic(err)
	}
	fmt.Println("I lead:", term.Valid())
	// ... work until term.Done() is closed; then, when the work has stopped:
	if err := term.Close(ctx); err != nil {
		panic(err)
	}
	fmt.Println(term.Err())
	// Output:
	// I lead: true
	// term ended: resigned
}

// A program that is no candidate follows the leadership: a router, a dashboard.
func ExampleElection_Observe() {
	redis := embeddedRedis()
	defer redis.Close()
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()

	quorum, err := elector.Open("redis://" + redis.Addr())
	if err != nil {
		panic(err)
	}
	defer quorum.Close()
	orders, err := quorum.Election("orders-poller")
	if err != nil {
		panic(err)
	}
	defer lead(quorum, "worker-1", "10.0.0.1:8080")() // elsewhere, in another process
	for event := range orders.Observe(ctx) {
		if event.Kind == elector.EventElected {
			fmt.Println("send requests to", event.Candidate, "at", event.Advertise)
			break // ends the stream and its subscription
		}
	}
	// Output:
	// send requests to worker-1 at 10.0.0.1:8080
}

// An operator moves the leadership away from a machine.
func ExampleElection_StepDown() {
	redis := embeddedRedis()
	defer redis.Close()
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()

	quorum, err := elector.Open("redis://" + redis.Addr())
	if err != nil {
		panic(err)
	}
	defer quorum.Close()
	defer lead(quorum, "worker-1", "")()
	orders, err := quorum.Election("orders-poller")
	if err != nil {
		panic(err)
	}
	leader, err := orders.Leader(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Println("leader:", leader.Candidate)
	defer lead(quorum, "worker-2", "")() // follows, until worker-1 steps down
	_, next, err := orders.As("alice").StepDown(ctx, "kernel update")
	if err != nil {
		panic(err)
	}
	fmt.Println("now:", next.Candidate)
	// Output:
	// leader: worker-1
	// now: worker-2
}

// lead runs a candidate of orders-poller until leave is called, and returns when it
// leads or follows.
func lead(quorum *elector.Quorum, id, advertise string) (leave func()) {
	candidate, err := elector.New(quorum, elector.Config{Election: "orders-poller", ID: id, Advertise: advertise})
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() {
		ended <- candidate.Run(ctx, func(ctx context.Context, _ *elector.Term) error {
			<-ctx.Done()
			return nil
		})
	}()
	for {
		l, err := candidate.Election().Leader(ctx)
		// Redis shows the lock a moment before the candidate that has won it leads.
		if err == nil && candidate.Check() == nil && (l.Candidate != id || candidate.IsLeader()) {
			return func() { stop(); <-ended }
		}
		time.Sleep(time.Millisecond)
	}
}

func embeddedRedis() *miniredis.Miniredis {
	m, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	m.ClockTTL(true)
	return m
}
