package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
)

// conditionEvery is how often watch checks whether Redis still answers: an observer gets no
// event both when nothing happens and when it is cut off.
const conditionEvery = 5 * time.Second

func (a *app) watchCommand() *cobra.Command {
	var asJSON, lines bool
	var screen *os.File
	cmd := &cobra.Command{
		Use:   "watch NAME",
		Short: "Show every change of an election as it happens",
		Long: `Show the leader of the election NAME, then every change as it happens, until
SIGINT or SIGTERM. On a terminal it is a live view of the leader, its lease, the
nodes and the latest events; elsewhere, or with --lines, one line per change. If
Redis is unreachable, this is logged on stderr, and watch continues.

Exit codes: 0 ended by a signal, 2 invalid flags or arguments.`,
		Example: `  mandate watch poller
  mandate watch poller --json | jq -r 'select(.kind == "elected") | .candidate'`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: a.completeElections,
		PreRunE: func(cmd *cobra.Command, args []string) error {
			if screen = a.screen(); asJSON || lines {
				screen = nil
			}
			if screen != nil && output.Terminal(a.stderr) != nil {
				a.log = slog.New(slog.DiscardHandler) // lines would run through the view
			}
			return a.openElection(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			context.AfterFunc(ctx, stop) // a second signal ends us at once
			if screen != nil {
				return watchLive(ctx, screen, a.election, a.where(), a.given)
			}
			return a.watchLines(ctx, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object per line")
	cmd.Flags().BoolVar(&lines, "lines", false, "print a line for each change, also on a terminal")
	return cmd
}

// screen is the terminal that watch draws on; nil when stdout is none.
func (a *app) screen() *os.File {
	if os.Getenv("TERM") == "dumb" {
		return nil
	}
	return output.Terminal(a.stdout)
}

// watchLines prints each change until ctx ends.
func (a *app) watchLines(ctx context.Context, asJSON bool) error {
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
	case <-time.After(finalFlush): // the reader of our output hangs
		return nil
	}
}

// printEvents prints events until there are no more, or no reader of them.
func (a *app) printEvents(events iter.Seq[elector.Event], asJSON bool) error {
	first := true
	for ev := range events {
		var err error
		if asJSON {
			err = output.JSONLine(a.stdout, ev)
		} else {
			_, err = fmt.Fprintln(a.stdout, eventLine(ev, first))
		}
		first = false
		if err != nil {
			return err
		}
	}
	return nil
}

// logConditions logs what keeps events from arriving, or a leader from being elected, and
// its end; nothing repeats while nothing changes.
func (a *app) logConditions(ctx context.Context, el *elector.Election) {
	was := ""
	for ; ctx.Err() == nil; sleep(ctx, conditionEvery) {
		st, err := el.Status(ctx)
		is := ""
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, elector.ErrDenied):
			is = "denied"
		case errors.Is(err, elector.ErrUnreachable):
			is = "unreachable"
		case err == nil && st.Blocked != "":
			is = "blocked"
		}
		if is == was {
			continue
		}
		switch {
		case is == "denied":
			a.log.Warn("cannot observe changes, the redis user lacks the right to read", "error", err)
		case is == "unreachable":
			a.log.Warn("cannot observe changes, no majority of the redis nodes answers", "error", err)
		case is == "blocked":
			a.log.Warn("no candidate can lead, the lock key holds a foreign value", "found", st.Blocked, "advice", a.given.command("doctor", el.Name()))
		case was == "blocked":
			a.log.Info("lock key is free again")
		default:
			a.log.Info("redis nodes respond again")
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

// eventLine is an event for people. The first one is how things stand.
func eventLine(ev elector.Event, first bool) string {
	at := ev.Time
	if first {
		at = time.Now()
	}
	who, what := eventText(ev)
	if ev.Kind != elector.EventVacant && ev.Kind != elector.EventSkipped {
		if ev.Advertise != "" {
			who += " (" + ev.Advertise + ")"
		}
		what = strings.TrimSpace(who + " " + what)
	}
	switch {
	case first && ev.Kind == elector.EventElected:
		what += ", since " + ev.Time.Local().Format(dateTimeZone)
	case first && ev.Kind == elector.EventVacant:
		what = "no leader"
	}
	return output.Printable(fmt.Sprintf("%s  %-9s %s", at.Local().Format("2006-01-02T15:04:05.000Z07:00"), ev.Kind, what))
}

// eventText is whom an event is about, and what happened.
func eventText(ev elector.Event) (who, what string) {
	switch ev.Kind {
	case elector.EventElected:
		return ev.Candidate, fmt.Sprintf("leads, token %d", ev.Token)
	case elector.EventReleased:
		why := string(ev.Reason)
		if ev.Detail != "" {
			why += ": " + ev.Detail
		}
		return ev.Candidate, fmt.Sprintf("stepped down (%s), token %d", why, ev.Token)
	case elector.EventAddress:
		return ev.Candidate, "has a new address"
	case elector.EventVacant:
		return "", "no leader: the leader vanished"
	case elector.EventSkipped:
		return "", fmt.Sprintf("%d events were left out: this reader is too slow", ev.Count)
	case elector.EventUnhealthy, elector.EventHealthy, elector.EventStopping, elector.EventOverrun:
		return ev.Candidate, ev.Detail
	default: // of a later version
		return ev.Candidate, ev.Detail
	}
}
