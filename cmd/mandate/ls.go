package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/elector"
)

func (a *app) lsCommand() *cobra.Command {
	var asJSON bool
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
		PreRunE:           a.observerOfAll,
		RunE: func(cmd *cobra.Command, _ []string) error {
			names, err := a.quorum.Elections(cmd.Context())
			if errors.Is(err, elector.ErrUnreachable) {
				return unreachable(err)
			}
			all, serr := statuses(cmd.Context(), a.quorum, names)
			if perr := a.printElections(all, asJSON); perr != nil {
				return perr
			}
			switch {
			case errors.Is(serr, elector.ErrUnreachable):
				return unreachable(serr)
			case serr != nil:
				return serr
			default:
				return aboutNodes(err)
			}
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON array of what status prints")
	return cmd
}

// asked is how many elections are asked for at once: enough to hide the round
// trips, little enough for the Redis that others work with.
const asked = 16

// statuses asks for all elections. The error is that of the first one that no
// majority told of.
func statuses(ctx context.Context, q *elector.Quorum, names []string) ([]elector.Status, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	all := make([]elector.Status, len(names))
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(asked, len(names)) {
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

func (a *app) printElections(all []elector.Status, asJSON bool) error {
	if asJSON {
		if all == nil {
			all = []elector.Status{}
		}
		return printJSON(a.stdout, all)
	}
	var b strings.Builder
	p := newPaper(a.stdout)
	elections := p.column(22, each(all, func(st elector.Status) string { return st.Election }))
	leaders := p.column(28, each(all, leads))
	line := func(election, leader, since, left, note string) string {
		return strings.TrimRight(fmt.Sprintf("%s %s %-11s %-7s %s", elections(election), leaders(leader), since, left, note), " ")
	}
	if len(all) == 0 {
		fmt.Fprintf(&b, "no elections under the prefix %s\n", a.prefix)
	} else {
		fmt.Fprintln(&b, p.dim(line("ELECTION", "LEADER", "LEADS FOR", "LEASE", "")))
	}
	for _, st := range all {
		note := ""
		if st.Paused {
			note = "paused"
		}
		if st.Blocked != "" {
			note = strings.TrimSpace(note + " BLOCKED: mandate status " + st.Election)
		}
		if st.Leader == nil {
			fmt.Fprintln(&b, p.paint("33", line(st.Election, leads(st), "-", "-", note)))
			continue
		}
		since := "?"
		if !st.Leader.Since.IsZero() {
			since = strings.TrimSuffix(ago(st.Leader.Since), " ago")
		}
		fmt.Fprintln(&b, line(st.Election, leads(st), cut(since, 11), brief(st.Leader.LeaseLeft), note))
	}
	_, err := io.WriteString(a.stdout, b.String())
	return err
}

// leads is one word about who leads.
func leads(st elector.Status) string {
	if st.Leader != nil {
		return st.Leader.Candidate
	}
	word, _, _ := strings.Cut(nobody(st), ";")
	return word
}
