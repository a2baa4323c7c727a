package elector_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// A program that must not wait tries once: it leads at once, or does something else.
func ExampleElector_TryCampaign() {
	redis := embeddedRedis()
	defer redis.Close()
	ctx := context.Background()

	quorum, err := elector.Open("redis://" + redis.Addr())
	if err != nil {
		panic(err)
	}
	defer quorum.Close()
	defer lead(quorum, "worker-1", "")() // elsewhere, in another process
	candidate, err := elector.New(quorum, elector.Config{Election: "orders-poller", ID: "worker-2"})
	if err != nil {
		panic(err)
	}
	term, err := candidate.TryCampaign(ctx)
	switch {
	case errors.Is(err, elector.ErrNotLeader):
		fmt.Println("another candidate leads")
	case err != nil:
		panic(err)
	default:
		// ... work until term.Done() is closed; then, when the work has stopped:
		_ = term.Close(ctx)
	}
	// Output:
	// another candidate leads
}

// An operator moves the leadership to a certain candidate.
func ExampleElection_Transfer() {
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
	defer lead(quorum, "worker-2", "")() // follows
	orders, err := quorum.Election("orders-poller")
	if err != nil {
		panic(err)
	}
	moved, err := orders.As("alice").Transfer(ctx, "worker-2")
	if err != nil {
		panic(err)
	}
	fmt.Println(moved.From.Candidate, "->", moved.To.Candidate)
	// Output:
	// worker-1 -> worker-2
}

// No new leader is elected during maintenance, until an operator resumes the election.
func ExampleElection_Pause() {
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
	paused := func() bool {
		status, err := orders.Status(ctx)
		if err != nil {
			panic(err)
		}
		return status.Paused
	}
	if err := orders.As("alice").Pause(ctx, 2*time.Hour, "move of the database"); err != nil {
		panic(err)
	}
	fmt.Println("paused:", paused())
	if err := orders.Resume(ctx); err != nil { // or the pause ends after two hours
		panic(err)
	}
	fmt.Println("paused:", paused())
	// Output:
	// paused: true
	// paused: false
}

// A dashboard shows who leads, and what each Redis node knows of it.
func ExampleElection_Status() {
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
	status, err := orders.Status(ctx) // an error, too, carries what is known
	if err != nil {
		panic(err)
	}
	if status.Leader != nil { // nil: no candidate leads
		fmt.Println(status.Leader.Candidate, "leads; its lease is good:", status.Leader.LeaseLeft > 0)
	}
	for _, node := range status.Nodes {
		fmt.Println("reachable:", node.Reachable, "held by:", node.Holder)
	}
	// Output:
	// worker-1 leads; its lease is good: true
	// reachable: true held by: worker-1
}

// The last terms of an election, and why they ended.
func ExampleElection_History() {
	redis := embeddedRedis()
	defer redis.Close()
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()

	quorum, err := elector.Open("redis://" + redis.Addr())
	if err != nil {
		panic(err)
	}
	defer quorum.Close()
	lead(quorum, "worker-1", "10.0.0.1:8080")() // leads, and shuts down
	orders, err := quorum.Election("orders-poller")
	if err != nil {
		panic(err)
	}
	for { // the report of an end reaches the history a moment after it
		terms, err := orders.History(ctx, 10) // the newest one first
		if err != nil {
			panic(err)
		}
		if len(terms) > 0 && terms[0].Reason == elector.ReasonShutdown {
			fmt.Println(terms[0].Candidate, "at", terms[0].Advertise, "led until:", terms[0].Reason)
			break
		}
		time.Sleep(time.Millisecond)
	}
	// Output:
	// worker-1 at 10.0.0.1:8080 led until: shutdown
}
