package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/fence"
)

func (a *app) ticksCommand() *cobra.Command {
	var f format
	cmd := &cobra.Command{
		Use:   "ticks NAME",
		Short: "Show the last tick of each job of a scheduler, and which is overdue",
		Long: `Show the jobs of the election NAME whose ticks are taken with fence.Once: the
last tick that was taken, who took it, and for how long the next one is overdue
by the clock of this host. "failed": the job returned an error, and may run
again. --redis is the Redis that holds the ticks, which may be another one than
that of the election; of several, each is read. It writes nothing, and answers
within 2 s. Ticks in a database are not shown: read the table mandate_tick.
Below are the newest gaps of each job: ticks that nobody ran, and why. A job that
is gone is listed until its mark expires; redis-cli DEL 'mandate:{NAME}:tick:JOB'
removes it at once, and unblocks a job whose mark is in the future.`,
		Example: `  mandate ticks reports
  mandate ticks reports --json | jq -r '.[] | select(.overdue_ms > 0) | .job'`,
		PreRunE: a.openElection,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.ticks(cmd.Context(), a.election.Name(), f) },
	}
	formatFlags(cmd, &f, "print one JSON array")
	return cmd
}

func (a *app) ticks(ctx context.Context, name string, f format) error {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	all, err := a.readTicks(ctx)
	switch {
	case err != nil && len(all) == 0 && !errors.Is(err, fence.ErrForeignMark):
		err = &exitError{code: exitUnreachable, err: err}
	case err != nil:
		err = &exitError{code: exitFailed, err: err}
	case len(all) == 0:
		err = &exitError{code: exitNoLeader, err: fmt.Errorf("no ticks of %s here: is this the Redis of fence.NewOnce, and the name right?", output.Printable(name))}
	}
	p := a.printer(f)
	var perr error
	switch {
	case f.json:
		perr = output.JSON(a.stdout, ticksJSON(all, time.Now()))
	case len(all) > 0:
		perr = p.Lines(append(p.Table(ticksTable(all, time.Now())), skippedTicks(all)...))
	}
	return cmp.Or(perr, err)
}

// readTicks returns the last tick of each job that one of the servers keeps, by name. What no Once has
// written is in the error, beside the others.
func (a *app) readTicks(ctx context.Context) ([]fence.Taken, error) {
	found := make([][]fence.Taken, len(a.opened))
	errs := make([]error, len(a.opened))
	concurrently(len(a.opened), len(a.opened), func(i int) { found[i], errs[i] = a.ticksOn(ctx, a.opened[i]) })
	newest := map[string]fence.Taken{}
	for _, t := range slices.Concat(found...) {
		if last, ok := newest[t.Job]; !ok || t.Tick.After(last.Tick) {
			newest[t.Job] = t
		}
	}
	return slices.SortedFunc(maps.Values(newest), func(a, b fence.Taken) int { return strings.Compare(a.Job, b.Job) }), errors.Join(errs...)
}

func (a *app) ticksOn(ctx context.Context, url string) ([]fence.Taken, error) {
	client, err := elector.NewClient(url)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	once, err := fence.NewOnce(client, a.election)
	if err != nil {
		return nil, err
	}
	all, err := once.All(ctx)
	if redis.IsPermissionError(err) {
		err = fmt.Errorf("%w (the Redis user needs +zrevrange +get)", err)
	}
	return all, err
}

func ticksTable(all []fence.Taken, now time.Time) *output.Table {
	t := output.NewTable(output.Column{Title: "JOB", Name: true}, output.Column{Title: "LAST TICK"}, output.Column{Title: "TAKEN"},
		output.Column{Title: "BY", Name: true}, output.Column{Title: "TOKEN"}, output.Column{Title: "EVERY"}, output.Column{Title: "OVERDUE"})
	for _, k := range all {
		color, taken, overdue := output.Plain, output.Ago(k.At), ""
		if k.Failed {
			color, taken = output.Yellow, "failed "+taken
		}
		if k.Never {
			taken = "never"
		}
		if ahead := k.Blocked(now); ahead > 0 {
			color, overdue = output.Red, "in the future: blocked for "+output.Brief(ahead)
		}
		if late := k.Overdue(now); late > 0 {
			color, overdue = output.Red, output.Brief(late)
		}
		t.Row(color, k.Job, k.Tick.Local().Format(dateTimeZone), taken, k.By, fmt.Sprint(k.Token), output.Brief(k.Every), overdue)
	}
	return t
}

// skippedTicks returns a line for each gap between the ticks of a job.
func skippedTicks(all []fence.Taken) (lines []string) {
	for _, k := range all {
		for _, s := range k.Skipped {
			lines = append(lines, fmt.Sprintf("%s: not run after %s until %s: %s", output.Printable(k.Job),
				s.After.Local().Format(dateTimeZone), s.Until.Local().Format(dateTimeZone), output.Printable(s.Reason)))
		}
	}
	return lines
}

// tickJSON is a job in JSON.
type tickJSON struct {
	Job     string    `json:"job"`
	Tick    time.Time `json:"tick"`
	Taken   time.Time `json:"taken"`
	By      string    `json:"by,omitempty"`
	Token   uint64    `json:"token"`
	Every   float64   `json:"every_ms"`
	Overdue float64   `json:"overdue_ms"`
	Failed  bool      `json:"failed,omitempty"`
	Never   bool      `json:"never,omitempty"`
	Skipped []gapJSON `json:"skipped,omitempty"`
}

// gapJSON is a gap between ticks in JSON.
type gapJSON struct {
	After  time.Time `json:"after"`
	Until  time.Time `json:"until"`
	Found  time.Time `json:"found"`
	Reason string    `json:"reason"`
}

func ticksJSON(all []fence.Taken, now time.Time) []tickJSON {
	rows := []tickJSON{} // never null
	for _, k := range all {
		row := tickJSON{k.Job, k.Tick, k.At, k.By, k.Token, output.MS(k.Every), output.MS(k.Overdue(now)), k.Failed, k.Never, nil}
		for _, s := range k.Skipped {
			row.Skipped = append(row.Skipped, gapJSON(s))
		}
		rows = append(rows, row)
	}
	return rows
}
