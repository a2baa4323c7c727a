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

// history is what mandate history prints; newest first.
type history struct {
	Terms  []elector.TermRecord  `json:"terms"`  // the newest first
	Pauses []elector.PauseRecord `json:"pauses"` // the newest first
}

func historyCommand(c *connection) *cobra.Command {
	var asJSON bool
	var count int
	cmd := &cobra.Command{
		Use:   "history NAME",
		Short: "Show the latest terms: leader, duration, reason of the end",
		Long: `Show the latest terms of the election NAME, newest first: the leader, when the
term began and how long it lasted, why it ended, and how long it took until the
next leader; and the pauses.

These are the leaders' reports to Redis, on their own clocks. "vanished": the
leader never reported its end. What is negative compares clocks that differ:
look at NTP on both hosts.
"?": it may still lead; no majority of the nodes answered.
It writes nothing, and answers within 4 s.`,
		Example: `  mandate history poller
  mandate history poller -n 99 --json | jq '.terms[] | .reason'`,
		PreRunE: func(cmd *cobra.Command, args []string) error {
			if count < 1 || count > maxTerms {
				c.problem("--count is %d: give 1 to %d, Redis keeps no more", count, maxTerms)
			}
			return c.openElection(cmd, args)
		},
		RunE: c.onElection(func(ctx context.Context, el *elector.Election) error { return historyOf(ctx, c, el, count, asJSON) }),
	}
	cmd.Flags().IntVarP(&count, "count", "n", 10, "how many terms, at most 500")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func historyOf(ctx context.Context, c *connection, el *elector.Election, count int, asJSON bool) error {
	r := doctor.Read(ctx, el, maxTerms) // also for all pauses
	shown := history{Terms: r.Terms[:min(count, len(r.Terms))], Pauses: r.Pauses}
	name := output.Printable(el.Name())
	none := fmt.Sprintf("no history of %s: is the name right? (%s shows all names)", name, c.given.command("ls"))
	if len(r.Candidates) > 0 {
		none = fmt.Sprintf("no term of %s is recorded: it has never had a leader, or Redis has lost its history; %s shows more", name, c.given.command("status", el.Name()))
	}
	if len(shown.Terms) == count {
		shown.since(cmp.Or(shown.Terms[count-1].From, shown.Terms[count-1].Until)) // the begin may be trimmed
	}
	return printHistory(c.terminal, shown, asJSON, none, r.TermsErr)
}

// since leaves out pauses that had ended before.
func (all *history) since(from time.Time) {
	all.Pauses = slices.DeleteFunc(all.Pauses, func(p elector.PauseRecord) bool { return !p.Until.IsZero() && p.Until.Before(from) })
}

// printHistory prints what is known, and returns err, or the error none if nothing is.
func printHistory(t *terminal, shown history, asJSON bool, none string, err error) error {
	empty := len(shown.Terms)+len(shown.Pauses) == 0
	if err == nil && empty {
		err = &exitError{code: exitNoLeader, err: errors.New(none)}
	}
	shown.Terms = append([]elector.TermRecord{}, shown.Terms...) // never null
	shown.Pauses = append([]elector.PauseRecord{}, shown.Pauses...)
	return cmp.Or(t.print(asJSON, shown, func(p *output.Printer) []string {
		if empty {
			return nil
		}
		return p.Table(historyTable(shown))
	}), err)
}

// historyRow is one row of the table, with the note below it.
type historyRow struct {
	from, until time.Time
	color       output.Color

	token, who, lasted, end, gap, note string
}

// historyTable has the terms and the pauses, newest first. All times are in the present zone.
func historyTable(shown history) *output.Table {
	var rows []historyRow
	for _, term := range shown.Terms {
		rows = append(rows, termRow(term))
	}
	for _, p := range shown.Pauses {
		rows = append(rows, pauseRow(p))
	}
	slices.SortStableFunc(rows, func(a, b historyRow) int { return cmp.Or(b.from, b.until).Compare(cmp.Or(a.from, a.until)) })
	name, offset := time.Now().Zone()
	at := func(t time.Time) string { return t.In(time.FixedZone(name, offset)).Format(time.DateTime) }
	table := output.NewTable("TOKEN", "LEADER", "FROM ("+name+")", "FOR", "END", "NEXT AFTER")
	for _, r := range rows {
		began := "-"
		switch {
		case !r.from.IsZero():
			began = at(r.from)
		case !r.until.IsZero():
			began = "to " + at(r.until)
		}
		table.Row(r.color, r.token, r.who, began, r.lasted, r.end, r.gap)
		table.Note(output.Dim, r.note)
	}
	return table
}

func termRow(t elector.TermRecord) historyRow {
	r := historyRow{
		token: fmt.Sprint(t.Token), who: t.Candidate, from: t.From, until: t.Until, lasted: "-",
		end: output.CutMiddle(cmp.Or(string(t.Reason), "?"), 20), note: t.Detail,
	}
	if t.Lasted != 0 {
		r.lasted = output.Brief(t.Lasted)
	}
	if t.Gap != 0 {
		r.gap = output.Brief(t.Gap)
	}
	switch {
	case t.Current:
		r.color, r.end = output.Green, "leads"
	case !t.Reason.Wanted():
		r.color = output.Yellow
	}
	return r
}

func pauseRow(p elector.PauseRecord) historyRow {
	r := historyRow{color: output.Dim, token: "-", who: "-", from: p.From, until: p.Until, lasted: "-", end: "pause", note: "paused"}
	if p.For > 0 {
		r.note += " for " + output.Brief(p.For)
	}
	if p.By != "" {
		r.note += " by " + p.By
	}
	if p.Reason != "" {
		r.note += ": " + p.Reason
	}
	if p.EndedBy != "" {
		r.note += "; ended by " + p.EndedBy
	}
	if p.Until.IsZero() {
		r.note += "; it lasts"
	} else {
		r.lasted = output.Brief(p.Until.Sub(p.From))
	}
	return r
}
