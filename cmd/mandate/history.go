package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
)

func (a *app) historyCommand() *cobra.Command {
	var f format
	var count int
	cmd := &cobra.Command{
		Use:   "history NAME",
		Short: "Show the latest terms: leader, duration, reason of the end",
		Long: `Show the latest terms of the election NAME, newest first: the leader, when the
term began and how long it lasted, why it ended, and how long it took until the
next leader. These are the leaders' reports to Redis, on their own clocks. A
negative NEXT AFTER means that the old leader was paused and reported its end
only after waking up. "vanished": the leader never reported its end. "?": it may
still lead; no majority of the nodes answered. OVERLAP marks terms that were
valid at the same time for more than 1 s: there were two leaders. It writes
nothing, and answers within 6 s.

Exit codes
  0  there is a history
  2  invalid flags or arguments
  3  there is none: check the name
  4  no majority of the Redis nodes answered`,
		Example: `  mandate history poller
  mandate history poller -n 100 --json | jq '.[] | select(.reason == "lost")'`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: a.completeElections,
		PreRunE: func(cmd *cobra.Command, args []string) error {
			if count < 1 || count > 500 {
				a.problem("--count is %d: give 1 to 500, Redis keeps no more", count)
			}
			return a.openElection(cmd, args)
		},
		RunE: a.onElection(func(ctx context.Context, el *elector.Election) error {
			terms, err := el.History(ctx, count)
			if perr := a.printHistory(el.Name(), terms, f, err == nil); perr != nil {
				return perr
			}
			if err == nil && len(terms) == 0 {
				return &exitError{code: exitNoLeader, quiet: f != formatJSON, err: errors.New("no history")}
			}
			return err
		}),
	}
	cmd.Flags().IntVarP(&count, "count", "n", 10, "how many terms, at most 500")
	a.formatFlags(cmd, &f, "print one JSON array", formatWide, formatJSON)
	return cmd
}

func (a *app) printHistory(election string, terms []elector.TermRecord, f format, complete bool) error {
	p := a.printer(f)
	switch {
	case f == formatJSON:
		return output.JSON(a.stdout, append([]elector.TermRecord{}, terms...)) // never null
	case len(terms) > 0:
		return p.Lines(append(a.whereLine(p), p.Table(historyTable(terms, f == formatWide))...))
	case complete:
		return p.Lines([]string{fmt.Sprintf("no history of %s: is the name right? (%s shows all names)", output.Printable(election), a.given.command("ls"))})
	default:
		return nil
	}
}

// planned ends need no investigation.
var planned = []elector.Reason{elector.ReasonShutdown, elector.ReasonResigned, elector.ReasonHandover, elector.ReasonFinished}

func historyTable(terms []elector.TermRecord, wide bool) *output.Table {
	zone, layout := zoneOf(terms)
	if wide {
		zone, layout = "", time.RFC3339Nano
	}
	t := output.NewTable(output.Column{Title: "TOKEN"}, output.Column{Title: "LEADER", Name: true}, output.Column{Title: "FROM" + zone},
		output.Column{Title: "FOR"}, output.Column{Title: "END"}, output.Column{Title: "NEXT AFTER"},
		output.Column{Title: "UNTIL"}, output.Column{Title: "ADDRESS"})
	for _, term := range terms {
		color := output.Plain
		switch {
		case len(term.Overlaps) > 0:
			color = output.Red
		case term.Current:
			color = output.Green
		case !slices.Contains(planned, term.Reason):
			color = output.Yellow
		}
		from, lasted, gap := "-", "-", ""
		if !term.From.IsZero() {
			from = term.From.Local().Format(layout)
		}
		if term.Lasted != 0 {
			lasted = output.Brief(term.Lasted)
		}
		if term.Gap != 0 {
			gap = output.Brief(term.Gap)
		}
		cells := []string{fmt.Sprint(term.Token), term.Candidate, from, lasted, termEnd(term), gap}
		if wide {
			cells = append(cells, exact(term.Until), term.Advertise)
		}
		t.Row(color, cells...)
		if len(term.Overlaps) > 0 {
			t.Note(output.Red, "OVERLAP: led at the same time as token "+overlapping(term.Overlaps))
		}
		t.Note(output.Dim, term.Detail)
	}
	return t
}

// zoneOf is the zone of all times, for their title, and how to print them. Where the clocks
// were changed between two of them, each has its own.
func zoneOf(terms []elector.TermRecord) (zone, layout string) {
	for _, term := range terms {
		if term.From.IsZero() {
			continue
		}
		name := " (" + term.From.Local().Format("MST") + ")"
		if zone != "" && zone != name {
			return "", time.DateTime + " MST"
		}
		zone = name
	}
	return zone, time.DateTime
}

func termEnd(term elector.TermRecord) string {
	if term.Current {
		return "leads"
	}
	return output.Cut(cmp.Or(string(term.Reason), "?"), 20)
}

// overlapping names the first tokens: forged entries could name any number of them.
func overlapping(tokens []uint64) string {
	names := make([]string, len(tokens))
	for i, token := range tokens {
		names[i] = fmt.Sprint(token)
	}
	return output.List(names, 5)
}
