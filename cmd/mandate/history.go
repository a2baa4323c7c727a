package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/elector"
)

func (a *app) historyCommand() *cobra.Command {
	var asJSON bool
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
  1  there is none: check the name
  2  invalid flags or arguments
  4  no majority of the Redis nodes answered`,
		Example: `  mandate history poller
  mandate history poller -n 100 --json | jq '.[] | select(.reason == "lost")'`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: a.completeElections,
		PreRunE: func(cmd *cobra.Command, args []string) error {
			if count < 1 || count > 500 {
				a.problem("--count is %d: give 1 to 500, Redis keeps no more", count)
			}
			return a.observer(cmd, args)
		},
		RunE: a.onElection(func(ctx context.Context, el *elector.Election) error {
			terms, err := el.History(ctx, count)
			if perr := a.printHistory(el.Name(), terms, asJSON, err == nil); perr != nil {
				return perr
			}
			if err == nil && len(terms) == 0 {
				return &exitError{code: exitTrouble, quiet: !asJSON, err: errors.New("no history")}
			}
			return err
		}),
	}
	cmd.Flags().IntVarP(&count, "count", "n", 10, "how many terms, at most 500")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON array, times in nanoseconds")
	return cmd
}

func (a *app) printHistory(election string, terms []elector.TermRecord, asJSON, complete bool) error {
	if asJSON {
		return printJSON(a.stdout, append([]elector.TermRecord{}, terms...)) // never null
	}
	var b strings.Builder
	switch {
	case len(terms) > 0:
		historyTable(newPaper(a.stdout), &b, terms)
	case complete:
		fmt.Fprintf(&b, "no history of %s: is the name right? (mandate ls shows all names)\n", election)
	}
	_, err := io.WriteString(a.stdout, b.String())
	return err
}

// planned ends are nothing to look into.
var planned = []elector.Reason{elector.ReasonShutdown, elector.ReasonResigned, elector.ReasonHandover, elector.ReasonFinished}

func historyTable(p *paper, b *strings.Builder, terms []elector.TermRecord) {
	const format = "%-15s %s %-14s %-7s %-9s %-s"
	leaders := p.column(19, each(terms, func(t elector.TermRecord) string { return t.Candidate }))
	line := func(token, leader, from, lasted, end, gap string) string {
		return strings.TrimRight(fmt.Sprintf(format, token, leaders(leader), from, lasted, end, gap), " ")
	}
	fmt.Fprintln(b, p.dim(line("TOKEN", "LEADER", "FROM", "FOR", "END", "NEXT AFTER")))
	for _, t := range terms {
		end, lasted, gap := cut(string(t.Reason), 20), "-", ""
		if t.Lasted != 0 {
			lasted = brief(t.Lasted)
		}
		if t.Gap != 0 {
			gap = brief(t.Gap)
		}
		from := "-"
		if !t.From.IsZero() {
			from = t.From.Local().Format("01-02 15:04:05")
		}
		switch {
		case t.Current:
			end = "leads"
		case end == "":
			end = "?"
		}
		l := line(fmt.Sprint(t.Token), t.Candidate, from, lasted, end, gap)
		switch {
		case len(t.Overlaps) > 0:
			l = p.paint("31", l)
		case t.Current:
			l = p.paint("32", l)
		case !slices.Contains(planned, t.Reason):
			l = p.paint("33", l)
		}
		fmt.Fprintln(b, l)
		if len(t.Overlaps) > 0 {
			b.WriteString(p.paint("31", strings.TrimRight(wrap("OVERLAP: led at the same time as token "+overlapping(t.Overlaps), "    "), "\n")) + "\n")
		}
		if t.Detail != "" {
			b.WriteString(p.dim(strings.TrimRight(wrap(t.Detail, "    "), "\n")) + "\n")
		}
	}
}

// overlapping names some of the tokens: a reader of forged entries has a screen, too.
func overlapping(tokens []uint64) string {
	const most = 5
	words := each(tokens[:min(most, len(tokens))], func(t uint64) string { return fmt.Sprint(t) })
	if more := len(tokens) - most; more > 0 {
		words = append(words, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(words, ", ")
}

// brief is a duration in at most seven characters.
func brief(d time.Duration) string {
	sign := ""
	if d < 0 {
		d, sign = -d, "-"
	}
	switch {
	case d < time.Millisecond:
		return sign + "<1ms"
	case d < time.Second:
		return sign + d.Round(time.Millisecond).String()
	case d < time.Minute:
		return fmt.Sprintf("%s%.1fs", sign, d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%s%dm%02ds", sign, int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%s%dh%02dm", sign, int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%s%dd%02dh", sign, int(d.Hours())/24, int(d.Hours())%24)
	}
}
