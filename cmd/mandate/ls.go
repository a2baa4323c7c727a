package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
)

func (a *app) lsCommand() *cobra.Command {
	var f format
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List all elections and their leaders",
		Long: `List all elections of the prefix, one per line: the leader, since when it leads,
and how long its lease lasts if it is not renewed. Elections without candidates
are listed too, because Redis keeps their counters. It scans all keys (SCAN) for
at most 1.5 s, and writes nothing.

Exit codes
  0  the list is complete (it may be empty)
  1  the list may be incomplete; stderr names what is missing
  2  invalid flags
  4  no majority of the Redis nodes answered`,
		Example: `  mandate ls
  mandate ls --json | jq -r '.[] | select(.leader == null) | .election'`,
		Args:              noNames(": it lists all elections; mandate status NAME shows one"),
		ValidArgsFunction: cobra.NoFileCompletions,
		PreRunE:           a.openQuorum,
		RunE: func(cmd *cobra.Command, _ []string) error {
			names, err := a.quorum.Elections(cmd.Context())
			if errors.Is(err, elector.ErrUnreachable) {
				return err
			}
			all, serr := statuses(cmd.Context(), a.quorum, names)
			return cmp.Or(a.printElections(all, f), serr, err)
		},
	}
	a.formatFlags(cmd, &f, "print one JSON array of what status prints", formatWide, formatName, formatJSON)
	return cmd
}

// parallelReads is how many elections are read at once: enough to hide the round
// trips, little enough for the Redis that others work with.
const parallelReads = 16

// statuses reads all elections. The error is that of the first one for which no
// majority answered.
func statuses(ctx context.Context, q *elector.Quorum, names []string) ([]elector.Status, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	all := make([]elector.Status, len(names))
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(parallelReads, len(names)) {
		wg.Go(func() {
			for i := range next {
				el, err := q.Election(names[i])
				if err == nil {
					all[i], err = el.Status(ctx)
				}
				if err != nil {
					cancel(err) // the others would run into the same
				}
				all[i].Election = names[i]
			}
		})
	}
	for i := range names {
		next <- i
	}
	close(next)
	wg.Wait()
	return all, context.Cause(ctx)
}

func (a *app) printElections(all []elector.Status, f format) error {
	p := a.printer(f)
	switch {
	case f == formatJSON:
		return output.JSON(a.stdout, append([]elector.Status{}, all...)) // never null
	case f == formatName:
		return printNames(p, all, func(st elector.Status) string { return st.Election })
	case len(all) == 0:
		return p.Lines([]string{"no elections under the prefix " + output.Printable(a.prefix)})
	}
	return p.Lines(p.Table(electionTable(all, f == formatWide)))
}

func electionTable(all []elector.Status, wide bool) *output.Table {
	t := output.NewTable(output.Column{Title: "ELECTION", Name: true}, output.Column{Title: "LEADER", Name: true},
		output.Column{Title: "LEADS FOR"}, output.Column{Title: "LEASE"}, output.Column{Title: "CONDITION"},
		output.Column{Title: "TOKEN"}, output.Column{Title: "SINCE"}, output.Column{Title: "ADDRESS"})
	for _, st := range all {
		var conditions []string
		if st.Paused {
			conditions = append(conditions, "paused")
		}
		if st.Blocked != "" {
			conditions = append(conditions, "BLOCKED: mandate status "+st.Election)
		}
		condition := strings.Join(conditions, " ")
		if st.Leader == nil {
			word, _, _ := strings.Cut(noLeader(st), ";")
			t.Row(output.Yellow, st.Election, word, "-", "-", condition)
			continue
		}
		since := "?"
		if !st.Leader.Since.IsZero() {
			since = output.Age(time.Since(st.Leader.Since))
		}
		cells := []string{st.Election, st.Leader.Candidate, since, output.Brief(st.Leader.LeaseLeft), condition}
		if wide {
			cells = append(cells, fmt.Sprint(st.Leader.Token), exact(st.Leader.Since), st.Leader.Advertise)
		}
		t.Row(output.Plain, cells...)
	}
	return t
}
