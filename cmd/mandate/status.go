package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/doctor"
)

func (a *app) statusCommand() *cobra.Command {
	var f format
	cmd := &cobra.Command{
		Use:   "status NAME",
		Short: "Show the leader of an election, and what is wrong with it",
		Long: `Show the election NAME: its leader, how many of its candidates could lead, its
Redis nodes, how the last term ended; and, if something is wrong, what it is and
which command to type next. The first line shows what happened: "problem", or
"ok", with the last end if it is less than an hour ago. It answers within 2 s
whatever Redis does.

-o wide lists the candidates that answer, the leader first. One that hangs or is
cut off from Redis is missing. UNHEALTHY: its probes fail. UNABLE: Redis or its
configuration keeps it from leading; the line below shows what.
The Redis user needs the right to publish roll calls.

A node is ok if it accepts writes, too: one that is out of memory or disk
answers queries, and lets no leader be elected. To find out it sets a key of its
own (prefix:{NAME}:check) for 100 ms. Where the Redis user may not write, that
is reported.

Exit codes
  0  there is a leader
  2  invalid flags or arguments
  3  there is no leader
  4  no majority of the Redis nodes answered`,
		Example: `  mandate status poller
  mandate status poller -o wide
  mandate status poller --json | jq -r '.roll[] | select(.healthy | not) | .id'`,
		Args:    cobra.ArbitraryArgs,
		PreRunE: a.openElection,
		RunE: a.onElection(func(ctx context.Context, el *elector.Election) error {
			ctx, cancel := context.WithTimeout(ctx, statusTimeout)
			defer cancel()
			r := examine(ctx, a.quorum, el, true)
			st, err := r.Status, r.err
			if perr := a.printStatus(&r, f); perr != nil {
				return perr
			}
			switch {
			case errors.Is(err, elector.ErrDenied):
				return &exitError{code: exitUnreachable, err: errors.New(
					"the Redis user lacks the right to read, so the leader is unknown (docs/redis.md: mandate-reader)")}
			case errors.Is(err, elector.ErrUnreachable): // the table has what each node answered
				return &exitError{code: exitUnreachable, err: fmt.Errorf(
					"no majority of the Redis nodes answered, so the leader is unknown (%d needed)", len(st.Nodes)/2+1)}
			case err != nil:
				return err
			case st.Leader == nil:
				return &exitError{code: exitNoLeader, err: errors.New("no leader"), quiet: true}
			}
			return nil
		}),
	}
	formatFlags(cmd, &f, "print one JSON object")
	return cmd
}

func (a *app) printStatus(r *report, f format) error {
	p, st, now := a.printer(f), r.Status, time.Now()
	r.flags = a.given
	if f.json {
		return output.JSON(a.stdout, r)
	}
	findings := r.findings()
	fields := append(r.headline(now), output.Field{Name: "election", Text: st.Election})
	fields = append(fields, statusFields(st, f.wide, r.unknownElection() && !r.ofGroup)...)
	if l := st.Leader; l != nil {
		fields = append(fields, output.Field{Name: "lease left", Text: output.Rounded(r.leaseLeft(now))})
	}
	fields = append(fields, output.Field{Name: "candidates", Text: r.candidates()})
	if r.last != nil && (fields[0].Name == "problem" || !r.justEnded(now)) { // else it is in the first line
		fields = append(fields, output.Field{Name: "last end", Text: r.lastEnd()})
	}
	if st.Paused {
		fields = append(fields, output.Field{Name: "paused", Text: pauseField(st), Color: output.Red})
	}
	for _, also := range findings {
		if serious(also) && also.Check != "leader" && !strings.HasSuffix(fields[0].Text, also.Found) {
			fields = append(fields, output.Field{Name: "also", Text: strings.TrimPrefix(also.Node+": "+also.Found, ": "), Color: output.Yellow})
		}
	}
	lines := append(p.Fields(fields), "")
	if f.wide && len(r.roll) > 0 {
		lines = append(append(lines, p.Table(candidateTable(r.roll, st.Nodes))...), "")
	}
	return p.Lines(append(lines, p.Table(nodeTable(st.Nodes, append(r.writes, findings...), f.wide))...))
}

func serious(f doctor.Finding) bool {
	return f.Level == doctor.LevelWarn || f.Level == doctor.LevelFail
}

// statusFields are the fields of the leader and its term. unknown: neither a node nor a candidate
// knows the election.
func statusFields(st elector.Status, wide, unknown bool) []output.Field {
	l := st.Leader
	if l == nil {
		return []output.Field{{Name: "leader", Text: noLeader(st, unknown), Color: output.Red}}
	}
	fields := []output.Field{{Name: "leader", Text: l.Candidate, Color: output.Green}}
	if l.Advertise != "" {
		fields = append(fields, output.Field{Name: "address", Text: l.Advertise})
	}
	fields = append(fields, output.Field{Name: "token", Text: fmt.Sprint(l.Token)})
	if !l.Since.IsZero() {
		layout := dateTimeZone
		if wide {
			layout = time.RFC3339Nano
		}
		fields = append(fields, output.Field{Name: "since", Text: fmt.Sprintf("%s (%s)", l.Since.Local().Format(layout), output.Ago(l.Since))})
	}
	if wide {
		fields = append(fields, output.Field{Name: "incarnation", Text: l.Incarnation})
	}
	return fields
}

// pauseField returns since when an election is paused, for how long, and why.
func pauseField(st elector.Status) string {
	text, since := "until it is resumed", ""
	if st.PauseLeft > 0 {
		text = "for another " + output.Age(st.PauseLeft)
	}
	if !st.PauseSince.IsZero() {
		since = "since " + st.PauseSince.Local().Format(dateTimeZone) + ", "
	}
	return since + text + ": no new leader will be elected"
}

// noLeader describes what is known about an election without a leader.
func noLeader(st elector.Status, unknown bool) string {
	switch {
	case !majorityAnswered(st):
		return "unknown"
	case unknown:
		return "none; " + noTrace
	default:
		return "none"
	}
}

// nodeTable has a row for each node. A wide table also shows the highest token that the node knows,
// which may be below the leader's until its first renewal, or above it after a failed claim.
func nodeTable(nodes []elector.NodeStatus, findings []doctor.Finding, wide bool) *output.Table {
	t := output.NewTable(output.Column{Title: "NODE", Name: true}, output.Column{Title: "STATE"},
		output.Column{Title: "HOLDER", Name: true}, output.Column{Title: "RTT"}, output.Column{Title: "FENCE"})
	words := map[string]string{"write": "read only", "lock": "blocked", "vote": "abstains", "refuses": "refusing"}
	for _, n := range nodes {
		if !n.Reachable {
			t.Row(output.Red, n.Node, nodeState(n))
			t.Note(output.Red, n.Error)
			continue
		}
		i := slices.IndexFunc(findings, func(f doctor.Finding) bool { return f.Node == n.Node && serious(f) && words[f.Check] != "" })
		cells, color := []string{n.Node, "ok", cmp.Or(n.Holder, "-"), output.Rounded(n.RTT)}, output.Plain
		if i >= 0 {
			cells[1], color = words[findings[i].Check], output.Red
		}
		if wide {
			cells = append(cells, fmt.Sprint(n.Fence))
		}
		t.Row(color, cells...)
		if i >= 0 {
			t.Note(color, strings.TrimSuffix(findings[i].Found+" -> "+findings[i].Advice, " -> "))
		}
	}
	return t
}

// nodeState returns one word for a node that could not be read.
func nodeState(n elector.NodeStatus) string {
	switch {
	case n.Denied:
		return "denied"
	case n.Answered:
		return "error"
	default:
		return "down"
	}
}
