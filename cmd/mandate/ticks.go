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

func (a *app) ticksCommand() *cobra.Command {
	var f format
	cmd := &cobra.Command{
		Use:   "ticks NAME",
		Short: "Show the last tick of each job of a scheduler, and which is overdue",
		Long: `Show the jobs of the election NAME whose ticks are kept in Redis: the last tick
that was taken, who took it, and for how long the next one is overdue by the
clock of its Redis. "failed": the job returned an error, and may run again. --redis is the Redis that holds the ticks, which may be another one than
that of the election; of several, each is read. It writes nothing, and answers
within 2 s. Ticks in a database are not shown: read the table mandate_tick.

Below are the jobs that have been overdue for a minute or are blocked, each with
what to do (then the exit code is 5), and the newest gaps of each job: ticks that
nobody ran, and why. A job that is gone is overdue until its mark expires.`,
		Example: `  mandate ticks reports
  mandate ticks reports --json | jq -r '.[] | select(.overdue_ms > 0) | .job'`,
		PreRunE: a.openElection,
		RunE:    a.onElection(func(ctx context.Context, el *elector.Election) error { return a.ticks(ctx, el, f) }),
	}
	formatFlags(cmd, &f, "print one JSON array")
	return cmd
}

func (a *app) ticks(ctx context.Context, el *elector.Election, f format) error {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	all, err := doctor.Ticks(ctx, el)
	rows := a.ticksJSON(el.Name(), all)
	switch {
	case err != nil && len(all) == 0 && !errors.Is(err, fence.ErrForeignMark):
		err = &exitError{code: exitUnreachable, err: err}
	case err != nil:
		err = &exitError{code: exitFailed, err: err}
	case len(all) == 0:
		err = &exitError{code: exitNoLeader, err: fmt.Errorf("no ticks of %s here: is this the Redis in which the scheduler keeps its ticks, and the name right?", output.Printable(el.Name()))}
	case slices.ContainsFunc(rows, func(row tickJSON) bool { return row.Problem != "" }):
		err = &exitError{code: exitWarnings, err: errors.New("there are jobs that do not run"), quiet: true}
	}
	p := output.New(a.stdout)
	var perr error
	switch {
	case f.json:
		perr = output.JSON(a.stdout, rows)
	case len(all) > 0:
		perr = p.Lines(slices.Concat(p.Table(ticksTable(all)), jobProblems(p, rows), skippedTicks(all)))
	}
	return cmp.Or(perr, err)
}

func ticksTable(all []doctor.Job) *output.Table {
	t := output.NewTable("JOB", "LAST TICK", "TAKEN", "BY", "TOKEN", "EVERY", "OVERDUE")
	for _, k := range all {
		color, taken, overdue := output.Plain, output.Ago(k.At), ""
		if k.Failed {
			color, taken = output.Yellow, "failed "+taken
		}
		if k.Never {
			taken = "never"
		}
		if k.Ahead > 0 {
			color, overdue = output.Red, "in the future: blocked for "+output.Brief(k.Ahead)
		}
		if k.Late > 0 {
			color, overdue = output.Red, output.Brief(k.Late)
		}
		t.Row(color, k.Job, k.Tick.Local().Format(dateTimeZone), taken, k.By, fmt.Sprint(k.Token), output.Brief(k.Every), overdue)
	}
	return t
}

// jobProblems returns what keeps jobs from running, each with what to do.
func jobProblems(p *output.Printer, rows []tickJSON) (lines []string) {
	for _, row := range rows {
		lines = append(lines, p.Fields([]output.Field{{Name: "problem", Text: row.Problem, Color: output.Red}, {Name: "next", Text: row.Next, Color: output.Yellow}})...)
	}
	return lines
}

// skippedTicks returns a line for each gap between the ticks of a job.
func skippedTicks(all []doctor.Job) (lines []string) {
	for _, k := range all {
		for _, s := range k.Skipped {
			lines = append(lines, fmt.Sprintf("%s: not run: the ticks after that of %s, up to that of %s: %s", output.Printable(k.Job),
				s.After.Local().Format(dateTimeZone), s.Until.Local().Format(dateTimeZone), output.Printable(s.Reason)))
		}
	}
	return lines
}

// tickJSON is a job in JSON.
type tickJSON struct {
	Job     string    `json:"job"`               // its name
	Tick    time.Time `json:"tick"`              // the ideal time of the last tick
	Taken   time.Time `json:"taken"`             // when, by the clock of Redis
	By      string    `json:"by,omitempty"`      // the candidate that took it
	Token   uint64    `json:"token"`             // of its term
	Every   float64   `json:"every_ms"`          // the time from the tick to the next one
	Overdue float64   `json:"overdue_ms"`        // 0: it is not
	Blocked float64   `json:"blocked_ms"`        // for how long a mark in the future lets no tick run
	Failed  bool      `json:"failed,omitempty"`  // the last tick may run again
	Never   bool      `json:"never,omitempty"`   // no tick has run yet
	Skipped []gapJSON `json:"skipped,omitempty"` // the newest gaps first
	Problem string    `json:"problem,omitempty"` // what is wrong
	Next    string    `json:"next,omitempty"`    // what to type next
}

// gapJSON is a gap between ticks in JSON.
type gapJSON struct {
	After  time.Time `json:"after"`  // the last tick before the gap
	Until  time.Time `json:"until"`  // no tick has run until this one
	Found  time.Time `json:"found"`  // when the gap was noticed
	Reason string    `json:"reason"` // why no tick was run
}

func (a *app) ticksJSON(election string, all []doctor.Job) []tickJSON {
	rows := []tickJSON{} // never null
	for i := range all {
		k := &all[i]
		row := tickJSON{
			Job: k.Job, Tick: k.Tick, Taken: k.At, By: k.By, Token: k.Token, Every: output.MS(k.Every),
			Overdue: output.MS(k.Late), Blocked: output.MS(k.Ahead), Failed: k.Failed, Never: k.Never,
		}
		row.Problem, row.Next = k.Problem(election, a.given.command)
		for _, s := range k.Skipped {
			row.Skipped = append(row.Skipped, gapJSON(s))
		}
		rows = append(rows, row)
	}
	return rows
}
