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
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/elector"
)

// lookEvery is how often watch looks whether Redis still answers: the events
// alone can't tell silence from a cut.
const lookEvery = 5 * time.Second

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
			if screen != nil && terminal(a.stderr) {
				a.log = slog.New(slog.DiscardHandler) // lines would run through the view
			}
			return a.observer(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			context.AfterFunc(ctx, stop) // a second signal ends us at once
			if screen != nil {
				return a.live(ctx, screen, a.election)
			}
			looked := make(chan struct{})
			go func() {
				defer close(looked)
				a.lookAt(ctx, a.election)
			}()
			defer func() { <-looked }()
			defer stop()
			shown := make(chan error, 1)
			go func() { shown <- a.show(a.election.Observe(ctx), asJSON) }()
			select {
			case err := <-shown:
				return err
			case <-ctx.Done():
			}
			select {
			case err := <-shown:
				return err
			case <-time.After(finalFlush): // nobody reads what we print
				return nil
			}
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object per line")
	cmd.Flags().BoolVar(&lines, "lines", false, "print a line for each change, also on a terminal")
	return cmd
}

func (a *app) show(events iter.Seq[elector.Event], asJSON bool) error {
	first := true
	for ev := range events {
		var err error
		if asJSON {
			err = writeJSON(a.stdout, ev, "")
		} else {
			_, err = fmt.Fprintln(a.stdout, eventLine(ev, first))
		}
		first = false
		if err != nil {
			return err // nobody reads any more
		}
	}
	return nil
}

// lookAt says on stderr when no majority of the nodes answers, and when it does
// again; nothing repeats while nothing changes.
func (a *app) lookAt(ctx context.Context, el *elector.Election) {
	was := ""
	for ctx.Err() == nil {
		st, err := el.Status(ctx)
		if ctx.Err() != nil {
			return
		}
		switch {
		case errors.Is(err, elector.ErrDenied) && was == "":
			a.log.Warn("cannot observe changes, the redis user lacks the right to read", "error", err)
			was = "denied"
		case errors.Is(err, elector.ErrUnreachable) && was == "":
			a.log.Warn("cannot observe changes, no majority of the redis nodes answers", "error", err)
			was = "unreachable"
		case err == nil && st.Blocked != "":
			if was != "blocked" {
				a.log.Warn("no candidate can lead, the lock key holds a foreign value", "found", st.Blocked, "advice", "mandate doctor "+el.Name())
			}
			was = "blocked"
		case err == nil && was == "blocked":
			a.log.Info("lock key is free again")
			was = ""
		case err == nil && was != "":
			a.log.Info("redis nodes respond again")
			was = ""
		}
		pauseFor(ctx, lookEvery)
	}
}

// eventLine is an event for people.
func eventLine(ev elector.Event, first bool) string {
	at := ev.Time.Local().Format("15:04:05.000")
	if first {
		at = time.Now().Format("15:04:05.000")
	}
	who := ev.Candidate
	if ev.Advertise != "" {
		who += " (" + ev.Advertise + ")"
	}
	var words string
	switch ev.Kind {
	case elector.EventElected:
		words = fmt.Sprintf("%s leads, token %d", who, ev.Token)
		if first {
			words += ", since " + ev.Time.Local().Format(time.DateTime)
		}
	case elector.EventReleased:
		words = fmt.Sprintf("%s stepped down (%s), token %d", who, why(ev), ev.Token)
	case elector.EventVacant:
		words = "no leader"
		if !first {
			words = "no leader: the leader vanished"
		}
	case elector.EventSkipped:
		words = fmt.Sprintf("%d events were left out: this reader is too slow", ev.Count)
	case elector.EventUnhealthy, elector.EventHealthy, elector.EventStopping, elector.EventOverrun:
		words = strings.TrimSpace(who + " " + ev.Detail)
	default: // of a later version
		words = strings.TrimSpace(who + " " + ev.Detail)
	}
	return printable(fmt.Sprintf("%s  %-9s %s", at, ev.Kind, words))
}

func why(ev elector.Event) string {
	if ev.Detail == "" {
		return string(ev.Reason)
	}
	return string(ev.Reason) + ": " + ev.Detail
}
