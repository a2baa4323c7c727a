package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/examples/internal/cli"
	"github.com/mandate-dev/mandate/health"
	"github.com/mandate-dev/mandate/health/healthhttp"
)

const election = "poller"

// worker is one instance of the program: it consumes the queue, and feeds it when elected.
type worker struct {
	db        *database
	log       *slog.Logger
	id, http  string
	lease     time.Duration
	late      time.Duration
	hangAfter time.Duration
}

func (w *worker) run(ctx context.Context, urls []string) error {
	if w.id == "" {
		host, _ := os.Hostname()
		w.id = fmt.Sprintf("%s-%d", host, os.Getpid())
	}
	log := w.log.With("worker", w.id)
	q, err := openQueue(urls[0])
	if err != nil {
		return err
	}
	defer q.close()
	quorum, err := elector.Open(urls...)
	if err != nil {
		return err
	}
	defer quorum.Close()
	stall := w.lease / 2 // how long the poll loop may make no progress
	feeder := &feeder{db: w.db, queue: q, beat: health.NewHeartbeat(stall), log: log, late: w.late, hangAfter: w.hangAfter}
	consumer := &consumer{db: w.db, queue: q, beat: health.NewHeartbeat(time.Minute), log: log, worker: w.id, claimAfter: w.lease}
	database, writable := health.SQL(w.db), health.Func(q.writable(w.id))
	candidate, err := elector.New(quorum, elector.Config{
		Election: election, ID: w.id, Lease: w.lease, Logger: log,
		// A worker that can't read the table or write to the queue must not be elected ...
		Probe: health.All(health.Named("database", database), health.Named("queue", writable)),
		// ... and a leader that makes no progress with it must not remain leader.
		WorkProbe:         health.Named("poll loop", feeder.beat),
		WorkProbeSettings: health.Settings{Interval: stall / 4},
	})
	if err != nil {
		return err
	}
	consumer.beat.Arm() // a consumer that makes no progress needs a restart
	checks := healthhttp.New()
	if err := errors.Join(
		checks.AddLiveProbe("consumer", consumer.beat, health.Settings{}),
		checks.AddReadyProbe("database", database, health.Settings{}),
		checks.AddReadyProbe("queue", writable, health.Settings{}),
		checks.AddReadyCheck("election", candidate.Check),
	); err != nil {
		return err
	}
	if err := awaitQueue(ctx, q, log); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx) // when one part fails, the others are stopped
	g.Go(func() error { return candidate.Run(ctx, feeder.lead) })
	g.Go(func() error { return consumer.run(ctx) })
	g.Go(func() error { return checks.Run(ctx) })
	g.Go(func() error { return serve(ctx, w.http, checks, log) })
	return g.Wait()
}

// awaitQueue waits for the queue's Redis, which may come up after the worker.
func awaitQueue(ctx context.Context, q *queue, log *slog.Logger) error {
	for {
		err := q.createGroup(ctx)
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		log.Warn("the queue can't be used yet", "error", err)
		cli.Pause(ctx, time.Second)
	}
}

// serve serves the health checks until ctx ends.
func serve(ctx context.Context, addr string, checks http.Handler, log *slog.Logger) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	log.Info("working", "http", listener.Addr().String())
	server := &http.Server{Handler: checks, ReadHeaderTimeout: 5 * time.Second}
	context.AfterFunc(ctx, func() { server.Close() })
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
