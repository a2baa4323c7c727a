package main

import (
	"context"
	"errors"
	"log/slog"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/elector"
)

// conditionEvery is how often watch checks whether Redis still answers. An observer that is cut off
// receives no event, as if nothing happened.
const conditionEvery = 5 * time.Second

func (a *app) watchCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "watch NAME",
		Short: "Show every change of an election as it happens",
		Long: `Show the leader of the election NAME, then every change as it happens, until
SIGINT or SIGTERM, one line per change. If Redis is unreachable, this is logged
on stderr, and watch continues.

Exit codes: 0 ended by a signal, 2 invalid flags or arguments, 3 NAME is a group
of shards.`,
		Example: `  mandate watch poller
  mandate watch poller --json | jq -r 'select(.kind == "elected") | .candidate'`,
		Args:    cobra.ArbitraryArgs,
		PreRunE: a.openElection,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			context.AfterFunc(ctx, stop) // a second signal ends the process at once
			if err := a.refuseGroup(ctx); err != nil {
				return err
			}
			return a.watch(ctx, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object per line")
	return cmd
}

// watch prints each change until ctx ends.
func (a *app) watch(ctx context.Context, asJSON bool) error {
	ctx, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { a.logConditions(ctx, a.election) })
	defer wg.Wait()
	defer stop()
	printed := make(chan error, 1)
	go func() { printed <- a.printEvents(a.election.Observe(ctx), asJSON) }()
	select {
	case err := <-printed:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-printed:
		return err
	case <-time.After(finalFlush): // the reader of the output hangs
		return nil
	}
}

// logConditions logs what prevents events from arriving, or a leader from being elected, when it
// begins and when it ends.
func (a *app) logConditions(ctx context.Context, el *elector.Election) {
	was := ""
	for ; ctx.Err() == nil; sleep(ctx, conditionEvery) {
		st, err := el.Status(ctx)
		is, attr := "", slog.Any("error", err)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, elector.ErrDenied):
			is = "the redis user lacks the right to read"
		case errors.Is(err, elector.ErrUnreachable):
			is = "no majority of the redis nodes answers"
		case err == nil && st.Blocked != "":
			is, attr = "no candidate can lead, the lock key holds a foreign value", slog.String("found", st.Blocked)
		}
		if is != was && is != "" {
			a.log.Warn("cannot observe changes", slog.String("condition", is), attr)
		} else if is != was {
			a.log.Info("observing changes again", "was", was)
		}
		was = is
	}
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
