package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/doctor"
)

// maxTerms is how many terms of an election Redis keeps.
const maxTerms = 500

// historyFlags are the flags of mandate history.
type historyFlags struct {
	format format
	count  int
	since  time.Time
}

// history is what mandate history prints; newest first.
type history struct {
	Terms  []elector.TermRecord  `json:"terms"`
	Pauses []elector.PauseRecord `json:"pauses"`
}

func (a *app) historyCommand() *cobra.Command {
	var h historyFlags
	var since string
	cmd := &cobra.Command{
		Use:   "history NAME",
		Short: "Show the latest terms: leader, duration, reason of the end",
		Long: `Show the latest terms of the election NAME, newest first: the leader, when the
term began and how long it lasted, why it ended, and how long it took until the
next leader; and the pauses.

These are the leaders' reports to Redis, on their own clocks. "vanished": the
leader never reported its end, and its process does not answer; "unreported": it
answers, and may report it yet. "<=" marks what is known as a bound only. A
negative NEXT AFTER means that the old leader was suspended and reported its end
only after waking up. "?": it may still lead; no majority of the nodes answered.
It writes nothing, and answers within 6 s.

Exit codes
  0  there is a history
  2  invalid flags or arguments
  3  there is none: check the name
  4  no majority of the Redis nodes answered`,
		Example: `  mandate history poller
  mandate history poller --since 168h
  mandate history poller -n 99 --json | jq '.terms[] | .reason'`,
		Args: cobra.ArbitraryArgs,
		PreRunE: func(cmd *cobra.Command, args []string) error {
			if h.count < 1 || h.count > maxTerms {
				a.problem("--count is %d: give 1 to %d, Redis keeps no more", h.count, maxTerms)
			}
			if h.since = a.checkSince(since); since != "" && !cmd.Flags().Changed("count") {
				h.count = maxTerms
			}
			return a.openElection(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return a.historyOf(cmd.Context(), a.election, h) },
	}
	cmd.Flags().IntVarP(&h.count, "count", "n", 10, "how many terms, at most 500; with --since: all")
	cmd.Flags().StringVar(&since, "since", "", "what happened since `TIME`: a duration before now (90m, 12h) or RFC 3339")
	formatFlags(cmd, &h.format, "print one JSON object")
	return cmd
}

func (a *app) historyOf(ctx context.Context, el *elector.Election, h historyFlags) error {
	var shown history
	var err, pausesErr error
	var wg sync.WaitGroup
	wg.Go(func() { shown.Pauses, pausesErr = el.Pauses(ctx) })
	shown.Terms, err = el.History(ctx, h.count)
	wg.Wait()
	err = cmp.Or(err, pausesErr)
	known := len(shown.Terms) > 0
	shown = shown.within(h)
	shown.Terms = withUnreported(ctx, el, shown.Terms)
	none := fmt.Sprintf("no history of %s: is the name right? (%s shows all names)", output.Printable(el.Name()), a.given.command("ls"))
	switch {
	case err != nil:
	case known && !h.since.IsZero():
		none = fmt.Sprintf("nothing happened in %s since %s", output.Printable(el.Name()), h.since.Local().Format(time.DateTime+" MST"))
	case isThere(ctx, el):
		none = fmt.Sprintf("no term of %s is recorded: it has never had a leader, or Redis has lost its history; %s shows more",
			output.Printable(el.Name()), a.given.command("status", el.Name()))
	}
	return a.printHistory(shown, h.format, known, none, err)
}

// within returns the terms and pauses that had not ended before --since; without it, the pauses since
// the begin of the oldest term.
func (all history) within(h historyFlags) history {
	from := h.since
	if n := len(all.Terms); from.IsZero() && n == h.count {
		from = begin(all.Terms[n-1])
	}
	ended := func(at time.Time) bool { return !at.IsZero() && at.Before(from) }
	return history{
		Terms: slices.DeleteFunc(append([]elector.TermRecord{}, all.Terms...), func(r elector.TermRecord) bool {
			return !r.Current && r.Reason != "" && ended(cmp.Or(r.Until, r.From.Add(r.MaxLasted)))
		}),
		Pauses: slices.DeleteFunc(append([]elector.PauseRecord{}, all.Pauses...), func(p elector.PauseRecord) bool { return ended(p.Until) }),
	}
}

// begin returns when a term began, or when it ended if the begin was trimmed.
func begin(r elector.TermRecord) time.Time { return cmp.Or(r.From, r.Until) }

// isThere reports whether an election without terms has candidates, so that its name is right.
func isThere(ctx context.Context, el *elector.Election) bool {
	ctx, cancel := context.WithTimeout(ctx, rollOfHistory)
	defer cancel()
	roll, _ := el.Candidates(ctx)
	return len(roll) > 0
}

// rollOfHistory bounds the roll call of a history.
const rollOfHistory = 1500 * time.Millisecond

// withUnreported calls the roll if it must be known which leaders that seem to have vanished are alive.
// Without a roll none is.
func withUnreported(ctx context.Context, el *elector.Election, terms []elector.TermRecord) []elector.TermRecord {
	if !slices.ContainsFunc(terms, func(r elector.TermRecord) bool { return r.Reason == elector.ReasonVanished }) {
		return terms
	}
	ctx, cancel := context.WithTimeout(ctx, rollOfHistory)
	defer cancel()
	roll, _ := el.Candidates(ctx)
	return doctor.Unreported(terms, roll, time.Now())
}

// printHistory prints what is known, and returns err, or an error if there is no history: known
// reports whether there was a term before --since. none says that nothing is shown.
func (a *app) printHistory(shown history, f format, known bool, none string, err error) error {
	p := a.printer(f)
	empty := len(shown.Terms)+len(shown.Pauses) == 0
	var perr error
	switch {
	case f.json:
		perr = output.JSON(a.stdout, shown)
	case !empty:
		perr = p.Lines(p.Table(historyTable(shown, f.wide)))
	case err == nil && known:
		perr = p.Lines(p.Prose(none))
	}
	if err == nil && empty && !known {
		err = &exitError{code: exitNoLeader, err: errors.New(none)}
	}
	return cmp.Or(perr, err)
}

// historyRow is one row of the table, with the note below it.
type historyRow struct {
	at      time.Time // by which the rows are sorted
	color   output.Color
	token   string
	leader  string
	from    time.Time
	lasted  string
	end     string
	gap     string
	until   time.Time
	address string
	note    string
}

// historyTable has the terms and the pauses, newest first.
func historyTable(shown history, wide bool) *output.Table {
	var entries []historyRow
	for _, term := range shown.Terms {
		entries = append(entries, termEntry(term))
	}
	for _, p := range shown.Pauses {
		entries = append(entries, pauseEntry(p))
	}
	slices.SortStableFunc(entries, func(a, b historyRow) int { return b.at.Compare(a.at) })
	zone, layout := zoneOf(entries)
	if wide {
		zone, layout = "", time.RFC3339Nano
	}
	table := output.NewTable(output.Column{Title: "TOKEN"}, output.Column{Title: "LEADER", Name: true},
		output.Column{Title: "FROM" + zone}, output.Column{Title: "FOR"}, output.Column{Title: "END"}, output.Column{Title: "NEXT AFTER"},
		output.Column{Title: "UNTIL"}, output.Column{Title: "ADDRESS"})
	for _, e := range entries {
		from := "-"
		if !e.from.IsZero() {
			from = e.from.Local().Format(layout)
		}
		cells := []string{e.token, e.leader, from, e.lasted, e.end, e.gap}
		if wide {
			cells = append(cells, exact(e.until), e.address)
		}
		table.Row(e.color, cells...)
		table.Note(output.Dim, e.note)
	}
	return table
}

func termEntry(term elector.TermRecord) historyRow {
	e := historyRow{
		at: begin(term), token: fmt.Sprint(term.Token), leader: term.Candidate, from: term.From, until: term.Until,
		address: term.Advertise, lasted: "-", end: output.CutMiddle(cmp.Or(string(term.Reason), "?"), 20),
	}
	switch {
	case term.Current:
		e.color, e.end = output.Green, "leads"
	case !term.Reason.Wanted():
		e.color = output.Yellow
	}
	switch {
	case term.Lasted != 0:
		e.lasted = output.Brief(term.Lasted)
	case term.MaxLasted != 0:
		e.lasted = atMost + output.Brief(term.MaxLasted)
	}
	switch {
	case term.Gap != 0:
		e.gap = output.Brief(term.Gap)
	case term.MaxGap != 0:
		e.gap = atMost + output.Brief(term.MaxGap)
	}
	e.note = term.Detail
	return e
}

// atMost marks an upper bound.
const atMost = "<= "

func pauseEntry(p elector.PauseRecord) historyRow {
	e := historyRow{at: p.From, color: output.Dim, token: "-", leader: "-", from: p.From, until: p.Until, lasted: "-", end: "pause"}
	if !p.Until.IsZero() {
		e.lasted = output.Brief(p.Until.Sub(p.From))
	}
	text := []string{"paused"}
	if p.For > 0 {
		text[0] += " for " + output.Brief(p.For)
	}
	if p.By != "" {
		text[0] += " by " + p.By
	}
	if p.Reason != "" {
		text[0] += ": " + p.Reason
	}
	if p.EndedBy != "" {
		text = append(text, "ended by "+p.EndedBy)
	}
	if p.Until.IsZero() {
		text = append(text, "it lasts")
	}
	e.note = strings.Join(text, "; ")
	return e
}

// zoneOf returns the zone of all times, for the title of their column, and a layout for them. If
// the times are in different zones (daylight saving), the layout has the zone and zone is empty.
func zoneOf(entries []historyRow) (zone, layout string) {
	for _, e := range entries {
		if e.from.IsZero() {
			continue
		}
		name := " (" + e.from.Local().Format("MST") + ")"
		if zone != "" && zone != name {
			return "", time.DateTime + " MST"
		}
		zone = name
	}
	return zone, time.DateTime
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
