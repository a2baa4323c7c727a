package main

import (
	"cmp"
	"errors"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/doctor"
)

func lsCommand(c *connection) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ls [PATTERN...]",
		Short: "List all elections and their leaders",
		Long: `List the elections of the prefix, one per line: the leader, since when it leads,
how long its lease lasts if it is not renewed, how many of its candidates could
lead, and how the last term ended. With patterns (* ? [a-z]) only those whose
name matches one. Without a leader an election is

  vacant     it is missed: its candidates cannot lead, or all of them are gone
  paused     an operator has paused it: no new leader will be elected
  finished   its work has ended well, and there is no candidate: run --once
  abandoned  there is no candidate, and has been no leader for a day, or never:
             it is dropped from the list 30 days after its last event
  none       whether there are candidates is not known (the Redis user needs
             the right to call the roll, or the answers did not come in time)

The shards of a group (mandate shards GROUP) are one row, GROUP#*: how many have
an owner, and how many of its members want shards; that pattern lists them all,
as does --json.

CONDITION is what is wrong; mandate status NAME shows more, and what to do.

It reads all elections and calls their rolls for at most 10 s, and like status
sets a key for 100 ms, to see whether the nodes accept writes. A question mark is
what could not be read. Those with the newest events are read first; of more than
10,000 the others are left out.`,
		Example: `  mandate ls
  mandate ls 'orders-*'
  mandate ls 'invoices#*'                    the shards of a group
  mandate ls --json | jq -r '.[] | select(.leader == null) | .election'`,
		PreRunE: func(_ *cobra.Command, patterns []string) error {
			for _, p := range patterns {
				if _, err := path.Match(p, ""); err != nil {
					c.problem("%q is not a pattern: a [ must be closed; \\[ stands for itself", p)
				}
			}
			return c.open(anyElection)
		},
		RunE: func(cmd *cobra.Command, patterns []string) error {
			names, err := c.quorum.Elections(cmd.Context())
			if errors.Is(err, elector.ErrUnreachable) {
				return err
			}
			names = matching(names, patterns)
			if len(names) == 0 && len(patterns) > 0 {
				return cmp.Or(err, error(&exitError{code: exitNoLeader, err: errors.New("no election has such a name; " + c.given.command("ls") + " lists all of them")}))
			}
			all := electionRows(names)
			if len(patterns) == 0 && !asJSON {
				all = foldedRows(names)
			}
			var serr error
			if len(names) > 0 {
				read := func() { serr = readAll(cmd.Context(), c.quorum, all, doctor.RecentTerms) }
				writes := whileRead(cmd.Context(), c.quorum, names[0], read)
				for i := range all {
					all[i].Writes = writes
				}
			}
			slices.SortFunc(all, func(a, b report) int { return strings.Compare(a.Election, b.Election) })
			return cmp.Or(printElections(c, all, asJSON), serr, err)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON array of what status prints")
	return cmd
}

func printElections(c *connection, all []report, asJSON bool) error {
	p := output.New(c.stdout)
	for i := range all {
		all[i].flags = c.given
	}
	switch {
	case asJSON:
		return output.JSON(c.stdout, append([]report{}, all...)) // never null
	case len(all) == 0:
		return p.Lines([]string{"no elections under the prefix " + output.Printable(c.prefix)})
	}
	lines := p.Fields(nodeProblem(all))
	if len(lines) > 0 {
		lines = append(lines, "")
	}
	return p.Lines(append(lines, p.Table(electionTable(all))...))
}

func electionTable(all []report) *output.Table {
	t := output.NewTable("ELECTION", "LEADER", "LEADS FOR", "LEASE LEFT", "ABLE", "LAST END", "CONDITION")
	for i := range all {
		r := &all[i]
		if r.group != nil {
			cells, color := r.groupCells()
			t.Row(color, cells...)
			continue
		}
		p := r.problem()
		condition := p.Found
		able, last := r.ableOf(), "-"
		if r.TermsErr != nil {
			last = "?"
		}
		if t := r.lastEnd(); t != nil {
			last = strings.TrimSpace(string(t.Reason) + " " + output.Ago(t.Until))
		}
		l := r.Leader
		if l == nil {
			state, color := r.state(), levelColor(p.Level)
			if p.Level == "" || state == statePaused {
				color = output.Dim
			}
			t.Row(color, r.Election, state, "-", "-", able, last, condition)
			continue
		}
		since := "?"
		if !l.Since.IsZero() {
			since = output.Brief(time.Since(l.Since))
		}
		t.Row(levelColor(p.Level), r.Election, l.Candidate, since, output.Brief(r.LeaseLeft()), able, last, condition)
	}
	return t
}

// matching returns the names that match one of the patterns, or all if there are none.
func matching(names, patterns []string) []string {
	if len(patterns) == 0 {
		return names
	}
	return slices.DeleteFunc(names, func(name string) bool {
		return !slices.ContainsFunc(patterns, func(p string) bool {
			ok, _ := path.Match(strings.ReplaceAll(p, "/", "\x00"), strings.ReplaceAll(name, "/", "\x00")) // so that * also matches /
			return ok
		})
	})
}
