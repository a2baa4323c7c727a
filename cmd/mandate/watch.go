package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
)

// conditionEvery is how often watch checks whether Redis still answers, and whether there is a pause.
// An observer that is cut off receives no event, as if nothing happened.
const conditionEvery = 2 * time.Second

func watchCommand(c *connection) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "watch NAME",
		Short: "Show each new state of an election as it happens",
		Long: `Show the leader of the election NAME, then each newer state as it happens, until
SIGINT or SIGTERM, one line per change; a pause and its end within 2 s. If Redis
is unreachable, this is logged on stderr, and watch continues.`,
		Example: `  mandate watch poller
  mandate watch poller --json | jq -r 'select(.kind == "elected") | .candidate'`,
		PreRunE: c.openElection,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			return watchElection(ctx, c, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object per line")
	return cmd
}

// watch prints each newer state until ctx ends.
func watchElection(ctx context.Context, c *connection, asJSON bool) error {
	ctx, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	events := make(chan elector.Event) // all changes: one goroutine prints them
	wg.Go(func() { watchStatus(ctx, c, events) })
	wg.Go(func() {
		for ev := range c.election.Observe(ctx) {
			sendTo(ctx, events, ev)
		}
		stop() // nothing more will come
	})
	printed := make(chan error, 1)
	go func() { printed <- printEvents(ctx, c.terminal, events, asJSON) }()
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

// watchStatus sends pauses and their ends, which are no events of an election. It also logs what
// prevents events from arriving, or a leader from being elected, when it begins and when it ends.
func watchStatus(ctx context.Context, c *connection, events chan<- elector.Event) {
	was, paused := "", false
	for ; ctx.Err() == nil; sleep(ctx, conditionEvery) {
		st, err := c.election.Status(ctx)
		is, attr := "", slog.Any("error", err)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, elector.ErrDenied):
			is = "the redis user lacks the right to read"
		case errors.Is(err, elector.ErrUnreachable):
			is = "no majority of the redis nodes answers"
		case st.MayLead != nil:
			is, attr = "who leads depends on redis nodes that do not answer", slog.String("may_lead", st.MayLead.Candidate)
		case err == nil && st.Blocked != "":
			is, attr = "no candidate can lead, the lock key holds a foreign value", slog.String("found", st.Blocked)
		}
		if is != was && is != "" {
			c.log.Warn("cannot observe changes", slog.String("condition", is), attr)
		} else if is != was {
			c.log.Info("observing changes again", "was", was)
		}
		was = is
		if err != nil || st.Paused == paused {
			continue
		}
		ev := elector.Event{Version: 1, Kind: "resumed", Election: st.Election, Time: time.Now()}
		if paused = st.Paused; paused {
			ev.Kind, ev.Detail = "paused", pausedBy(st)
		}
		sendTo(ctx, events, ev)
	}
}

// printEvents prints events until ctx ends, or until a write fails.
func printEvents(ctx context.Context, t *terminal, events <-chan elector.Event, asJSON bool) error {
	for {
		var ev elector.Event
		select {
		case ev = <-events:
		case <-ctx.Done():
			return nil
		}
		var err error
		if asJSON {
			err = output.JSONLine(t.stdout, ev)
		} else {
			_, err = fmt.Fprintln(t.stdout, eventLine(ev))
		}
		if err != nil {
			return err
		}
	}
}

// eventLine says about which candidate an event is, and what happened.
func eventLine(ev elector.Event) string {
	who, what := ev.Candidate, ev.Detail // of a kind of a later version
	if ev.Advertise != "" {
		who += " (" + ev.Advertise + ")"
	}
	switch ev.Kind {
	case elector.EventElected:
		what = fmt.Sprintf("leads, token %d", ev.Token)
	case elector.EventReleased:
		why := strings.TrimSuffix(string(ev.Reason)+": "+ev.Detail, ": ")
		what = fmt.Sprintf("stepped down (%s), token %d", why, ev.Token)
	case elector.EventVacant:
		who, what = "", "no leader: the leader vanished"
		if ev.Token == 0 { // there was none at the beginning
			what = "no leader"
		}
	}
	return output.Printable(fmt.Sprintf("%s  %-9s %s", exact(ev.Time), ev.Kind, strings.TrimSpace(who+" "+what)))
}
