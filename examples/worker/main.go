// Command worker is the smallest complete program with an elector: one of its replicas does the
// job. See README.md.
package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/health"
)

// main takes the URL of a Redis, or those of 3 or 5 independent ones, which make a quorum.
func main() {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	logging.Disable() // otherwise go-redis prints each failed connection, too
	// The first signal ends ctx, and with it Run. A second one kills the process.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	if err := run(ctx, log, os.Args[1:]...); err != nil {
		log.Error("worker failed", "error", err)
		os.Exit(1)
	}
}

// run campaigns until ctx ends. When it returns nil, the job has stopped and the lock is released,
// so that the next replica can lead.
func run(ctx context.Context, log *slog.Logger, urls ...string) error {
	quorum, err := elector.Open(urls...)
	if err != nil {
		return err
	}
	defer quorum.Close()
	w := &worker{log: log, beat: health.NewHeartbeat(5 * time.Second)}
	candidate, err := elector.New(quorum, elector.Config{
		Election: "worker-example", WorkProbe: health.Named("job", w.beat), Logger: log,
	})
	if err != nil {
		return err
	}
	return candidate.Run(ctx, w.lead)
}

type worker struct {
	log  *slog.Logger
	beat *health.Heartbeat
}

// lead does the job at every tick until the term ends. An error would end Run and the program, so
// return only errors that a restart may fix.
func (w *worker) lead(ctx context.Context, term *elector.Term) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		if err := w.job(ctx, term.Token()); err != nil && !errors.Is(err, context.Canceled) {
			w.log.Warn("job failed, retrying", "error", err)
		} else if err == nil {
			// Beat only after progress: if the job fails or hangs for five seconds, this replica
			// loses the leadership, and another one tries.
			w.beat.Beat()
		}
		select {
		case <-ctx.Done():
			w.log.Info("stopped", "reason", context.Cause(ctx))
			return nil
		case <-tick.C:
		}
	}
}

// job is where your own work goes. It must stop when ctx ends, and give the token to what it writes
// to.
func (w *worker) job(ctx context.Context, token uint64) error {
	w.log.Info("working", "token", token)
	return ctx.Err()
}
