package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/elector"
)

func (a *app) candidatesCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "candidates NAME",
		Short: "List the candidates of an election with role and health",
		Long: `List the candidates of the election NAME, the leader first. It sends a query to
all of them and waits for the answers, at most three seconds; a candidate that
hangs or is cut off from Redis is missing. The Redis user needs the right to
publish, which the operator of docs/redis.md has and the reader does not.

Exit codes
  0  there are candidates
  2  invalid flags or arguments
  3  no candidate answers
  4  no majority of the Redis nodes answered`,
		Example: `  mandate candidates poller
  mandate candidates poller --json | jq -r '.[] | select(.healthy | not) | .id'`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: a.completeElections,
		PreRunE:           a.observer,
		RunE: a.onElection(func(ctx context.Context, el *elector.Election) error {
			all, err := el.Candidates(ctx)
			if err != nil {
				return err
			}
			if err := a.printCandidates(all, asJSON); err != nil {
				return err
			}
			if len(all) > 0 {
				return nil
			}
			why := fmt.Errorf("no candidates in %s", el.Name())
			switch st, err := el.Status(ctx); {
			case err != nil:
			case st.Blocked != "":
				why = fmt.Errorf("%w, and no candidate can lead: %s (mandate doctor %s)", why, st.Blocked, el.Name())
			case traceless(st):
				why = fmt.Errorf("%w; %s", why, noTrace)
			case st.Leader != nil:
				why = fmt.Errorf("no candidate answers in %s, although %s leads: it may hang, or its Redis user lacks the right to subscribe (docs/redis.md)", el.Name(), st.Leader.Candidate)
			}
			return &exitError{code: exitNoLeader, err: why}
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON array")
	return cmd
}

func (a *app) printCandidates(all []elector.CandidateStatus, asJSON bool) error {
	if asJSON {
		return printJSON(a.stdout, append([]elector.CandidateStatus{}, all...)) // never null
	}
	if len(all) == 0 {
		return nil
	}
	var b strings.Builder
	p := newPaper(a.stdout)
	ids := p.column(29, each(all, func(c elector.CandidateStatus) string { return c.ID }))
	line := func(id, role, health, priority, running, version string) string {
		return strings.TrimRight(fmt.Sprintf("%s %-10s %-9s %8s %10s  %s",
			ids(id), role, health, priority, running, cut(version, 9)), " ")
	}
	fmt.Fprintln(&b, p.dim(line("CANDIDATE", "ROLE", "HEALTH", "PRIORITY", "RUNNING", "VERSION")))
	oneList := sameNodes(all)
	for _, c := range all {
		health, colour := "ok", ""
		if !c.Healthy {
			health, colour = "UNHEALTHY", "33"
		} else if c.Role == elector.RoleLeading {
			colour = "32"
		}
		row := line(c.ID, printable(string(c.Role)), health, fmt.Sprint(c.Priority),
			c.RunningFor.Truncate(time.Second).String(), c.Version)
		if colour != "" {
			row = p.paint(colour, row)
		}
		fmt.Fprintln(&b, row)
		if where := strings.TrimSpace(c.Host + " " + c.Advertise); where != "" {
			b.WriteString(wrap(where, "    "))
		}
		if slices.ContainsFunc(all, func(o elector.CandidateStatus) bool { return o.ID == c.ID && o.Incarnation != c.Incarnation }) {
			b.WriteString(wrap("another candidate has the same id: give each its own id", "    "))
		}
		if !oneList {
			b.WriteString(wrap("votes with: "+nodeNames(c), "    "))
		}
		if c.Detail != "" {
			b.WriteString(wrap(c.Detail, "    "))
		}
	}
	if !oneList {
		b.WriteString(wrap("They vote with different nodes, so two of them can lead: give all the same list (mandate doctor).", ""))
	}
	_, err := io.WriteString(a.stdout, b.String())
	return err
}

// sameNodes tells whether all candidates have one list of nodes.
func sameNodes(all []elector.CandidateStatus) bool {
	for i, c := range all {
		for _, other := range all[:i] {
			if !c.SameNodes(other) {
				return false
			}
		}
	}
	return true
}

func nodeNames(c elector.CandidateStatus) string {
	return strings.Join(each(c.Nodes, func(n elector.VotingNode) string { return cmp.Or(n.Name, "?") }), " ")
}

// printable keeps what others say from moving the cursor: whoever may write to
// Redis may have said it.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, s)
}
