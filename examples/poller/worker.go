package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electorhttp"
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
	defer q.client.Close()
	quorum, err := elector.Open(urls...)
	if err != nil {
		return err
	}
	defer quorum.Close()
	stall := w.lease / 2 // how long the poll loop may make no progress
	feeder := &feeder{db: w.db, queue: q, beat: health.NewHeartbeat(stall), log: log, late: w.late, hangAfter: w.hangAfter}
	consumer := &consumer{db: w.db, queue: q, beat: health.NewHeartbeat(time.Minute), log: log, worker: w.id, claimAfter: w.lease}
	database, writable := health.Func(w.db.PingContext), health.Func(q.writable(w.id))
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
	listener, err := electorhttp.Listen(ctx, w.http)
	if err != nil {
		return err
	}
	log.Info("working", "http", listener.Addr().String())
	_ = q.createGroup(ctx)              // if this fails, the consumer does it when Redis is there
	g, ctx := errgroup.WithContext(ctx) // when one part fails, the others are stopped
	g.Go(func() error { return candidate.Run(ctx, feeder.lead) })
	g.Go(func() error { return consumer.run(ctx) })
	g.Go(func() error { return checks.Run(ctx) })
	g.Go(func() error { return electorhttp.Serve(ctx, electorhttp.NewServer(checks), listener) })
	return g.Wait()
}
