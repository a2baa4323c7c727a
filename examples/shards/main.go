// Command shards leads many elections in one process: one per shard of the work,
// all on one quorum. See README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

const usage = `usage: shards [-shards N] [URL...]
Leads the elections of all shards. URLs of 3 or 5 independent Redis servers
make a quorum (default redis://127.0.0.1:6379).`

func main() {
	count := flag.Int("shards", 8, "number of shards; the same for all replicas")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), usage)
		flag.PrintDefaults()
	}
	flag.Parse()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal kills
	if err := run(ctx, log, *count, flag.Args()...); err != nil {
		log.Error("shards failed", "error", err)
		os.Exit(1)
	}
}

// run takes part in the elections of all shards until ctx ends, or until one
// fails: then the others hand over too.
func run(ctx context.Context, log *slog.Logger, count int, urls ...string) error {
	if count < 1 {
		return fmt.Errorf("-shards is %d: at least 1", count)
	}
	if len(urls) == 0 {
		urls = []string{"redis://127.0.0.1:6379"}
	}
	quorum, err := elector.Open(urls...) // its connections and its subscription serve all shards
	if err != nil {
		return err
	}
	defer quorum.Close()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, count)
	var all sync.WaitGroup
	for shard := range count {
		all.Go(func() {
			if errs[shard] = lead(ctx, log, quorum, shard); errs[shard] != nil {
				cancel()
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// lead takes part in the election of one shard.
func lead(ctx context.Context, log *slog.Logger, quorum *elector.Quorum, shard int) error {
	log = log.With("shard", shard)
	candidate, err := elector.New(quorum, elector.Config{Election: fmt.Sprintf("shards-example-%d", shard), Logger: log})
	if err != nil {
		return err
	}
	err = candidate.Run(ctx, func(ctx context.Context, term *elector.Term) error {
		return work(ctx, log, term.Token())
	})
	if err != nil {
		return fmt.Errorf("shard %d: %w", shard, err)
	}
	return nil
}

// work is where the work on one shard goes.
func work(ctx context.Context, log *slog.Logger, token uint64) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		log.Info("working", "token", token)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
