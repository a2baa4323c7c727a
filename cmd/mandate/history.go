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
	"github.com/mandate-dev/mandate/elector/doctor"
)

// maxTerms is how many terms of an election Redis keeps.
const maxTerms = 500

func (a *app) historyCommand() *cobra.Command {
	var h historyFlags
	var since string
	cmd := &cobra.Command{
		Use:   "history NAME",
		Short: "Show the latest terms: leader, duration, reason of the end",
		Long: `Show the latest terms of the election NAME, newest first: the leader, when the
term began and how long it lasted, why it ended, and how long it took until the
next leader; and the pauses. If no candidate leads, the first line says since
when. The last line sums up the time without a leader; pauses count apart.

These are the leaders' reports to Redis, on their own clocks. "vanished": the
leader never reported its end, and its process does not answer; "unreported": it
answers, and may report it yet (--all does not look for that). "<=" marks what
is known as a bound only. A negative NEXT AFTER means that the old leader was
suspended and reported its end only after waking up. "?": it may still lead; no
majority of the nodes answered. OVERLAP marks terms that were valid at the same
time for more than 1 s: there were two leaders. It writes nothing, and answers
within 6 s.

--all shows one time line of all elections, or of those that match a pattern
(* ? [a-z]). It reads a hundred elections per request and waits at most 5 s for
each answer.

Exit codes
  0  there is a history
  1  with --all: some elections could not be read; stderr names what is missing
  2  invalid flags or arguments
  3  there is none: check the name
  4  no majority of the Redis nodes answered`,
		Example: `  mandate history poller
  mandate history poller --since 168h
  mandate history --all --since 12h
  mandate history --all 'orders-*' -n 50
  mandate history poller -n 99 --json | jq '.terms[] | .reason'`,
		Args: cobra.ArbitraryArgs,
		PreRunE: func(cmd *cobra.Command, args []string) error {
			if h.count < 1 || h.count > maxTerms {
				a.problem("--count is %d: give 1 to %d, Redis keeps no more", h.count, maxTerms)
			}
			if h.since = a.checkSince(since); since != "" && !cmd.Flags().Changed("count") {
				h.count = maxTerms
			}
			if !h.all {
				return a.openElection(cmd, args)
			}
			a.checkPatterns(args)
			return a.openQuorum(cmd, nil)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if h.all {
				return a.historyOfAll(cmd.Context(), args, h)
			}
			return a.historyOf(cmd.Context(), a.election, h)
		},
	}
	cmd.Flags().IntVarP(&h.count, "count", "n", 10, "how many terms, at most 500; with --since: all")
	cmd.Flags().BoolVar(&h.all, "all", false, "all elections, or those whose name matches an argument")
	cmd.Flags().StringVar(&since, "since", "", "what happened since `TIME`: a duration before now (90m, 12h) or RFC 3339")
	formatFlags(cmd, &h.format, "print one JSON object")
	return cmd
}

func (a *app) historyOf(ctx context.Context, el *elector.Election, h historyFlags) error {
	t, err := el.Timeline(ctx, h.count, h.since)
	nameUnreported(ctx, el, &t)
	none := fmt.Sprintf("no history of %s: is the name right? (%s shows all names)", output.Printable(el.Name()), a.given.command("ls"))
	switch {
	case err != nil || len(t.Terms) > 0:
	case len(t.Availability) == 0 && namesGroup(ctx, a.quorum, el.Name()):
		none = aGroup(el.Name(), a.given) + ", " + a.given.command("history", "--all", el.Name()+"/*")
	case !h.since.IsZero() && len(t.Availability) > 0:
		none = h.nothing(output.Printable(el.Name()))
	case isThere(ctx, el):
		none = a.neverLed(el.Name())
	}
	return a.printTimeline(t, h, none, err)
}

// nothing is printed when a history with --since has neither terms nor pauses.
func (h historyFlags) nothing(where string) string {
	return fmt.Sprintf("nothing happened in %s since %s", where, h.since.Local().Format(time.DateTime+" MST"))
}

// neverLed is printed for an election that exists but has no recorded term.
func (a *app) neverLed(name string) string {
	return fmt.Sprintf("no term of %s is recorded: it has never had a leader, or Redis has lost its history; %s shows more", output.Printable(name), a.given.command("status", name))
}

// isThere reports whether an election without terms has candidates, so that its name is right.
func isThere(ctx context.Context, el *elector.Election) bool {
	ctx, cancel := context.WithTimeout(ctx, rollOfHistory)
	defer cancel()
	roll, _ := el.Candidates(ctx)
	return len(roll) > 0
}

// rollOfHistory bounds the roll call of a history.
const rollOfHistory = 1500 * time.Millisecond

// nameUnreported marks vanished terms as unreported if the process of their leader answers and has
// not reported the end: then its machine is fine. Without a roll no term is marked.
func nameUnreported(ctx context.Context, el *elector.Election, t *elector.Timeline) {
	vanished := func(r elector.TermRecord) bool { return r.Reason == elector.ReasonVanished }
	if !slices.ContainsFunc(t.Terms, vanished) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, rollOfHistory)
	defer cancel()
	roll, _ := el.Candidates(ctx)
	name := func(terms []elector.TermRecord) []elector.TermRecord {
		now := doctor.Unreported(terms, roll, time.Now())
		for i := range now {
			if vanished(terms[i]) && !vanished(now[i]) {
				now[i].Detail = endUnreported
			}
		}
		return now
	}
	t.Terms = name(t.Terms)
	for i := range t.Vacancies {
		v := &t.Vacancies[i]
		v.After = name([]elector.TermRecord{v.After})[0]
	}
}

func (a *app) historyOfAll(ctx context.Context, patterns []string, h historyFlags) error {
	names, listErr := a.quorum.Elections(ctx)
	if errors.Is(listErr, elector.ErrUnreachable) {
		return listErr
	}
	names = matching(names, patterns)
	t, err := a.quorum.Timeline(ctx, names, h.count, h.since)
	if h.since.IsZero() && len(t.Terms) > h.count {
		t = newest(t, h.count)
	}
	none := "no election has such a history; " + a.given.command("ls") + " lists all elections"
	switch {
	case err != nil:
		none = "no term is recorded of the elections that could be read"
	case !h.since.IsZero() && len(t.Availability) > 0:
		none = h.nothing(counted(len(names), "election"))
	case len(names) == 1:
		none = a.neverLed(names[0])
	case len(names) > 1:
		none = fmt.Sprintf("no term of these %d elections is recorded; %s shows more", len(names), a.given.command("ls"))
	}
	return a.printTimeline(t, h, none, cmp.Or(err, listErr))
}

// newest returns the last n terms of several elections, and the pauses of that time. It
// drops nothing else: the sums of an election cover all its terms that were read.
func newest(t elector.Timeline, n int) elector.Timeline {
	t.Terms = t.Terms[:n]
	begin := t.Terms[n-1].Began()
	t.Pauses = slices.DeleteFunc(t.Pauses, func(p elector.PauseRecord) bool { return !p.Until.IsZero() && p.From.Before(begin) })
	return t
}

// printTimeline prints what is known, and returns err, or an error if there is no history.
func (a *app) printTimeline(t elector.Timeline, h historyFlags, none string, err error) error {
	p := a.printer(h.format)
	empty := len(t.Terms)+len(t.Pauses)+len(t.Vacancies) == 0
	var perr error
	switch {
	case h.format.json:
		perr = output.JSON(a.stdout, t)
	case !empty:
		lines := p.Table(timelineTable(t, h))
		perr = p.Lines(append(lines, availabilityLines(p, t, h)...))
	case !errors.Is(err, elector.ErrUnreachable): // also when some elections may be missing
		perr = p.Lines(p.Prose(none))
	}
	switch {
	case perr != nil:
		return perr
	case err == nil && empty && len(t.Availability) == 0:
		return &exitError{code: exitNoLeader, quiet: !h.format.json, err: errors.New("no history")}
	default:
		return err
	}
}

// checkSince returns the time of --since.
func (a *app) checkSince(s string) (at time.Time) {
	if s == "" {
		return at
	}
	at, ok := parseSince(s, time.Now())
	switch {
	case !ok:
		a.problem("--since is %q: give a duration such as 90m or 12h, or a time such as 2026-11-21T17:00:00Z", s)
	case at.After(time.Now()):
		a.problem("--since is %q: that is not in the past", s)
	}
	return at
}

// parseSince parses a duration, or a time in RFC 3339 or in the format and zone of the tables.
func parseSince(s string, now time.Time) (time.Time, bool) {
	if d, err := time.ParseDuration(s); err == nil && d > 0 {
		return now.Add(-d), true
	}
	for _, layout := range []string{time.RFC3339, time.DateTime, time.DateOnly} {
		if at, err := time.ParseInLocation(layout, s, time.Local); err == nil {
			return at, true
		}
	}
	return time.Time{}, false
}
