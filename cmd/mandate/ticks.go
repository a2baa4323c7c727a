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
	"github.com/mandate-dev/mandate/elector/fence"
)

func ticksCommand(c *connection) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ticks NAME",
		Short: "Show the last tick and run of each scheduled job, and which is overdue",
		Long: `Show the jobs of the election NAME whose ticks are kept in Redis: the newest tick
that was decided, the next one, how the last run ended, and for how long the
next tick is overdue by the clock of its Redis. --redis is the Redis that holds
the ticks, which may be another one than that of the election; of several, each
is read. It writes nothing, and answers within 2 s. Ticks in a database are not
shown: read the table mandate_tick.

Below are the jobs that have been overdue for a minute, are blocked, or failed,
each with what to do (then the exit code is 5), and the newest gaps of each job:
ticks that nobody ran, and why.`,
		Example: `  mandate ticks reports
  mandate ticks reports --json | jq -r '.[] | select(.overdue_ms > 0) | .job'`,
		PreRunE: c.openElection,
		RunE:    c.onElection(func(ctx context.Context, el *elector.Election) error { return showTicks(ctx, c, el, asJSON) }),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON array")
	return cmd
}

func showTicks(ctx context.Context, c *connection, el *elector.Election, asJSON bool) error {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	all, err := doctor.Ticks(ctx, el)
	rows := ticksJSON(c, el.Name(), all)
	switch {
	case err != nil && len(all) == 0 && !errors.Is(err, fence.ErrForeignMark):
		err = &exitError{code: exitUnreachable, err: err}
	case err != nil:
		err = &exitError{code: exitFailed, err: err}
	case len(all) == 0:
		err = &exitError{code: exitNoLeader, err: fmt.Errorf("no ticks of %s here: is this the Redis in which the scheduler keeps its ticks, and the name right?", output.Printable(el.Name()))}
	case slices.ContainsFunc(rows, func(row tickJSON) bool { return row.Problem != "" }):
		err = &exitError{code: exitWarnings, err: errors.New("there are jobs that do not run well"), quiet: true}
	}
	return cmp.Or(c.print(asJSON, rows, func(p *output.Printer) []string {
		if len(rows) == 0 {
			return nil
		}
		return slices.Concat(p.Table(ticksTable(rows)), jobProblems(p, rows), skippedTicks(rows))
	}), err)
}

func ticksTable(rows []tickJSON) *output.Table {
	t := output.NewTable("JOB", "LAST TICK", "NEXT", "LAST RUN", "BY", "OVERDUE")
	for i := range rows {
		k := &rows[i]
		color, overdue := output.Plain, ""
		switch {
		case k.Ahead > 0:
			color, overdue = output.Red, "in the future: blocked for "+output.Brief(k.Ahead)
		case k.Late > 0:
			color, overdue = output.Red, output.Brief(k.Late)
		case k.Problem != "":
			color = output.Yellow
		}
		t.Row(color, k.Taken.Job, shortTime(k.Tick, "none yet"), shortTime(k.Next, "none"), lastRun(k.Run), k.Run.By, overdue)
	}
	return t
}

// shortTime formats the time of a tick; none is for the zero time.
func shortTime(at time.Time, none string) string {
	if at.IsZero() {
		return none
	}
	return at.Local().Format(dateTimeZone)
}

// lastRun says how and when the newest run of a job ended, or since when it is running.
func lastRun(r fence.Ran) string {
	text := string(r.Outcome) + " " + output.Ago(r.Ended)
	switch {
	case r.Began.IsZero():
		return "never"
	case r.Outcome == "":
		text = "running, begun " + output.Ago(r.Began)
	}
	if r.Tick.IsZero() {
		return "by hand, " + text
	}
	return text
}

// jobProblems returns what keeps jobs from running, each with what to do.
func jobProblems(p *output.Printer, rows []tickJSON) (lines []string) {
	for _, row := range rows {
		lines = append(lines, p.Fields([]output.Field{{Name: "problem", Text: row.Problem, Color: output.Red}, {Name: "next", Text: row.Advice, Color: output.Yellow}})...)
	}
	return lines
}

// shownGaps is how many gaps of a job are printed.
const shownGaps = 3

// skippedTicks returns a line for each of the newest gaps between the ticks of a job.
func skippedTicks(rows []tickJSON) (lines []string) {
	for i := range rows {
		newest := rows[i].Skipped[:min(len(rows[i].Skipped), shownGaps)]
		for _, s := range newest {
			lines = append(lines, fmt.Sprintf("%s: not run: the ticks from %s to %s: %s", output.Printable(rows[i].Taken.Job),
				shortTime(s.First, ""), shortTime(s.Last, ""), output.Printable(s.Reason)))
		}
		if more := len(rows[i].Skipped) - len(newest); more > 0 {
			lines = append(lines, fmt.Sprintf("%s: %d older gaps: --json", output.Printable(rows[i].Taken.Job), more))
		}
	}
	return lines
}

// tickJSON is a job in JSON.
type tickJSON struct {
	doctor.Job

	Overdue float64 `json:"overdue_ms"`          // 0: it is not
	Blocked float64 `json:"blocked_ms"`          // for how long a mark in the future lets no tick run
	Problem string  `json:"problem,omitempty"`   // what is wrong
	Advice  string  `json:"next_step,omitempty"` // what to type next
}

func ticksJSON(c *connection, election string, all []doctor.Job) []tickJSON {
	rows := []tickJSON{} // never null
	for i := range all {
		row := tickJSON{Job: all[i], Overdue: output.MS(all[i].Late), Blocked: output.MS(all[i].Ahead)}
		row.Problem, row.Advice = all[i].Problem(election, c.given.command)
		rows = append(rows, row)
	}
	return rows
}
