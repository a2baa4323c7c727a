package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electorhttp"
	"github.com/mandate-dev/mandate/elector/electorprom"
	"github.com/mandate-dev/mandate/elector/fence"
	"github.com/mandate-dev/mandate/health"
	"github.com/mandate-dev/mandate/health/healthhttp"
)

// service has three elections, metrics, /ready, and an end that waits for all.
func service(ctx context.Context, q *elector.Quorum) error {
	listener, err := electorhttp.Listen(ctx, listen)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	ready := healthhttp.New()
	for _, name := range []string{"mailer", "reports", "invoices"} {
		beat := health.NewHeartbeat(10 * time.Second)
		e, err := elector.New(q, elector.Config{Election: name, Lease: lease, WorkProbe: beat})
		if err != nil {
			return err
		}
		metrics := electorprom.New(e)
		if err := errors.Join(prometheus.Register(metrics), ready.AddReadyCheck(name, e.Check)); err != nil {
			return err
		}
		group.Go(func() error { return metrics.Run(ctx) })
		group.Go(func() error { return e.Run(ctx, loop(beat, step)) })
	}
	http.Handle("/metrics", promhttp.Handler())
	http.Handle("/ready", ready)
	group.Go(func() error { return electorhttp.Serve(ctx, electorhttp.NewServer(http.DefaultServeMux), listener) })
	return group.Wait()
}

// loop returns work that calls do each second. Run calls it once for each term.
func loop(beat *health.Heartbeat, do func(ctx context.Context, token uint64) error) elector.Work {
	return func(ctx context.Context, term *elector.Term) error {
		for every := time.Tick(time.Second); ; {
			if err := do(ctx, term.Token()); err == nil {
				beat.Beat() // without one in time another replica leads
			} else if errors.Is(err, fence.ErrStale) {
				return nil // another one leads: campaign again
			} else if ctx.Err() == nil {
				slog.Warn("step failed", "error", err) // and try again: an error that is returned ends Run
			}
			select {
			case <-ctx.Done():
				return nil
			case <-every:
			}
		}
	}
}

// step is your own work, which sends the token with what it writes.
func step(ctx context.Context, token uint64) error {
	slog.Info("working", "token", token)
	return ctx.Err()
}
