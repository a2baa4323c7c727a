package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
)

func (a *app) lsCommand() *cobra.Command {
	var f format
	cmd := &cobra.Command{
		Use:   "ls [PATTERN...]",
		Short: "List all elections and their leaders",
		Long: `List the elections of the prefix, one per line: the leader, since when it leads,
how long its lease lasts if it is not renewed, how many of its candidates could
lead, and how the last term ended. With patterns (* ? [a-z]) only those whose
name matches one. Without a leader an election is

  vacant     candidates are there, and none of them leads
  paused     an operator has paused it: no new leader will be elected
  abandoned  there is no candidate: Redis keeps the counter of an election until
             mandate forget removes it
  none       whether there are candidates is not known (the Redis user needs
             the right to call the roll, or the answers did not come in time)

UNRESPONSIVE marks a leader that does not answer: it may hang or be dead.
FLAPPING marks an election whose leadership was lost at least three times in ten
minutes.

It scans all keys (SCAN) for at most 1.5 s, calls the roll of all elections
for at most 5 s, and writes nothing.

Exit codes
  0  the list is complete (without a pattern it may be empty)
  1  the list may be incomplete; stderr names what is missing
  2  invalid flags or patterns
  3  no name matches a pattern
  4  no majority of the Redis nodes answered`,
		Example: `  mandate ls
  mandate ls 'orders-*'
  mandate ls --json | jq -r '.[] | select(.leader == null) | .election'`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: a.completeElections,
		PreRunE: func(cmd *cobra.Command, patterns []string) error {
			a.checkPatterns(patterns)
			return a.openQuorum(cmd, nil)
		},
		RunE: func(cmd *cobra.Command, patterns []string) error {
			names, err := a.quorum.Elections(cmd.Context())
			if errors.Is(err, elector.ErrUnreachable) {
				return err
			}
			if names = matching(names, patterns); len(names) == 0 && len(patterns) > 0 {
				return cmp.Or(err, error(&exitError{code: exitNoLeader, err: errors.New("no election has such a name; " + a.given.command("ls") + " lists all of them")}))
			}
			if f == formatName {
				return cmp.Or(printNames(a.printer(f), names, func(name string) string { return name }), err)
			}
			all, serr := reports(cmd.Context(), a.quorum, names)
			return cmp.Or(a.printElections(all, f), serr, err)
		},
	}
	a.formatFlags(cmd, &f, "print one JSON array of what status prints", formatWide, formatName, formatJSON)
	return cmd
}

// parallelReads is how many elections are read at once: enough to hide the round
// trips, little enough for the Redis that others work with.
const parallelReads = 16

// restWithin bounds what is read of all elections beside their status: a node that hangs
// delays each roll.
const restWithin = 5 * time.Second

// reports reads all elections. The error is that of the first one for which no
// majority answered.
func reports(ctx context.Context, q *elector.Quorum, names []string) ([]report, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	rest, done := context.WithTimeout(ctx, restWithin)
	defer done()
	all := make([]report, len(names))
	next := make(chan int)
	var denied atomic.Bool // each refused roll call disturbs the subscription
	var wg sync.WaitGroup
	for range min(parallelReads, len(names)) {
		wg.Go(func() {
			for i := range next {
				r := &all[i]
				el, err := q.Election(names[i])
				if err == nil {
					r.readStatus(ctx, el)
					err = r.err
				}
				if r.Election, r.err, r.rollErr = names[i], err, err; err != nil {
					var answer redis.Error
					if errors.Is(err, elector.ErrUnreachable) && !errors.As(err, &answer) {
						cancel(err) // the others would run into the same
					}
					continue
				}
				r.readRest(rest, el, &denied)
			}
		})
	}
	for i := range names {
		next <- i
	}
	close(next)
	wg.Wait()
	err := context.Cause(ctx)
	for i := range all { // a name that is none, or keys that another program wrote: of that election alone
		err = cmp.Or(err, all[i].err)
	}
	return all, err
}

// fewTerms are enough to see that leadership flaps, and few for a list of all elections.
const fewTerms = 10

// readRest reads the roll and the last terms.
func (r *report) readRest(ctx context.Context, el *elector.Election, denied *atomic.Bool) {
	terms, _ := el.History(ctx, fewTerms) // without it the list has less to show
	defer func() { r.recall(terms, fewTerms, time.Now()) }()
	if r.rollErr = elector.ErrDenied; denied.Load() {
		return
	}
	r.roll, r.rollErr = el.Candidates(ctx)
	if errors.Is(r.rollErr, elector.ErrDenied) {
		denied.Store(true)
	}
	if r.rollErr == nil && len(r.roll) == 0 && ctx.Err() != nil {
		r.rollErr = ctx.Err()
	}
	r.checkLeader(ctx, el)
}

func (a *app) printElections(all []report, f format) error {
	p := a.printer(f)
	for i := range all {
		a.setOrigin(&all[i])
	}
	switch {
	case f == formatJSON:
		return output.JSON(a.stdout, append([]report{}, all...)) // never null
	case len(all) == 0:
		return p.Lines([]string{"no elections under the prefix " + output.Printable(a.prefix)})
	}
	return p.Lines(append(a.whereLine(p), p.Table(electionTable(all, f == formatWide, false))...))
}

// electionTable has a row for each election. On a screen the condition is a word, which must
// not be clipped: what to do about it stands below the list.
func electionTable(all []report, wide, screen bool) *output.Table {
	state := 0 // the longest state that is shown instead of a leader
	for i := range all {
		if all[i].Leader == nil {
			state = max(state, len(all[i].state()))
		}
	}
	columns := []output.Column{{Title: "ELECTION", Name: true}, {Title: "LEADER", Name: true, Min: state}, {Title: "LEADS FOR"}, {Title: "LEASE LEFT"}, {Title: "ABLE"}}
	ends := []output.Column{{Title: "LAST END"}, {Title: "CONDITION", Rest: true}}
	if screen {
		ends = []output.Column{{Title: "CONDITION"}, {Title: "LAST END", Rest: true}}
	}
	t := output.NewTable(append(append(columns, ends...), output.Column{Title: "TOKEN"}, output.Column{Title: "SINCE"}, output.Column{Title: "ADDRESS"})...)
	for i := range all {
		r := &all[i]
		able, last, condition := "?", "-", r.condition(!screen)
		if r.rollErr == nil {
			able = fmt.Sprintf("%d/%d", r.able(), len(r.roll))
		}
		if r.last != nil {
			last = strings.TrimSpace(cmp.Or(string(r.last.Reason), unreported) + " " + ago(r.last.Until))
		}
		if screen {
			last, condition = condition, last
		}
		l := r.Leader
		if l == nil {
			state, color := r.state(), output.Red
			if state == stateAbandoned || state == statePaused {
				color = output.Dim
			}
			if r.stale {
				color = output.Dim
			}
			t.Row(color, r.Election, state, "-", "-", able, last, condition)
			continue
		}
		since := "?"
		if !l.Since.IsZero() {
			since = output.Age(time.Since(l.Since))
		}
		cells := []string{r.Election, l.Candidate, since, output.Brief(r.leaseLeft(time.Now())), able, last, condition}
		if wide {
			cells = append(cells, fmt.Sprint(l.Token), exact(l.Since), l.Advertise)
		}
		color := output.Plain
		if r.stale {
			color = output.Dim
		}
		t.Row(color, cells...)
	}
	return t
}

// ago is when a term ended, briefly.
func ago(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	d := max(time.Second, time.Since(t).Truncate(time.Second))
	if d < time.Minute {
		return d.String() + " ago"
	}
	return output.Brief(d) + " ago"
}

// condition is what stands beside an election in a list, with the command to type next, or
// without.
func (r *report) condition(commands bool) string {
	var all []string
	add := func(word, verb string) {
		if commands {
			word += ": " + r.flags.command(verb, r.Election)
		}
		all = append(all, word)
	}
	if r.stale {
		all = append(all, "as of "+r.at.Local().Format(time.TimeOnly))
	}
	if r.Paused && r.Leader != nil {
		all = append(all, "paused")
	}
	if r.unresponsive {
		add("UNRESPONSIVE", "status")
	}
	if r.Conflict != "" {
		add("CONFLICT", "doctor")
	}
	if r.Blocked != "" {
		add("BLOCKED", "status")
	}
	if r.flaps != "" {
		add("FLAPPING", "history")
	}
	return strings.Join(all, " ")
}
