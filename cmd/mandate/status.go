package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/elector"
)

// statusTimeout keeps status below two seconds, whatever Redis does.
const statusTimeout = 1700 * time.Millisecond

func (a *app) statusCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status NAME",
		Short: "Show the leader of an election",
		Long: `Show the leader of the election NAME and the state of each Redis node. It writes
nothing, and answers within 2 s whatever Redis does.

Exit codes
  0  there is a leader
  2  invalid flags or arguments
  3  there is no leader
  4  no majority of the Redis nodes answered`,
		Example: `  mandate status poller
  mandate status poller --json | jq -r .leader.candidate`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: a.completeElections,
		PreRunE:           a.observer,
		RunE: a.onElection(func(ctx context.Context, el *elector.Election) error {
			ctx, cancel := context.WithTimeout(ctx, statusTimeout)
			defer cancel()
			st, err := el.Status(ctx)
			if perr := printStatus(a.stdout, st, asJSON); perr != nil {
				return perr
			}
			switch {
			case errors.Is(err, elector.ErrDenied):
				return &exitError{code: exitUnreachable, err: errors.New(
					"the Redis user lacks the right to read, so the leader is unknown (docs/redis.md: mandate-reader)")}
			case errors.Is(err, elector.ErrUnreachable):
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
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func printStatus(w io.Writer, st elector.Status, asJSON bool) error {
	if asJSON {
		return printJSON(w, st)
	}
	var b strings.Builder
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-12s%s\n", name, printable(fmt.Sprintf(format, args...)))
	}
	row("election", "%s", st.Election)
	if l := st.Leader; l != nil {
		row("leader", "%s", l.Candidate)
		if l.Advertise != "" {
			row("address", "%s", l.Advertise)
		}
		row("token", "%d", l.Token)
		if !l.Since.IsZero() {
			row("since", "%s (%s)", l.Since.Local().Format(time.DateTime), ago(l.Since))
		}
		row("lease left", "%s", rough(l.LeaseLeft))
	} else {
		row("leader", "%s", nobody(st))
	}
	if st.Paused {
		row("paused", "%s: no new leader will be elected (%s)", pausedFor(st.PauseLeft, 0, rough), st.Pause)
	}
	if st.Blocked != "" {
		const indent = "            "
		text := wrap(fmt.Sprintf("%s: no candidate can lead until it is gone. Find out who wrote it, then remove it: mandate doctor %s",
			st.Blocked, st.Election), indent)
		b.WriteString("BLOCKED     " + strings.TrimPrefix(text, indent))
	}
	if st.Conflict != "" {
		row("CONFLICT", "%s (mandate doctor %s)", st.Conflict, st.Election)
	}
	b.WriteByte('\n')
	nodeTable(&b, st.Nodes)
	_, err := io.WriteString(w, b.String())
	return err
}

const noTrace = "no trace of it on these nodes: is the name right?"

// pausedFor is how long a pause still lasts, some time after that much was left.
func pausedFor(left, after time.Duration, words func(time.Duration) string) string {
	if left <= 0 {
		return "until it is resumed"
	}
	return "for another " + words(max(0, left-after))
}

// nobody says as much as is known about an election without a leader.
func nobody(st elector.Status) string {
	switch {
	case !answered(st):
		return "unknown"
	case traceless(st):
		return "none; " + noTrace
	default:
		return "none"
	}
}

// answered tells whether a majority of the nodes did.
func answered(st elector.Status) bool {
	reachable := 0
	for _, n := range st.Nodes {
		if n.Reachable {
			reachable++
		}
	}
	return 2*reachable > len(st.Nodes)
}

// traceless tells that a majority answered, and none knows of any leader, now or
// before: it is likely that the name is wrong.
func traceless(st elector.Status) bool {
	return answered(st) && !slices.ContainsFunc(st.Nodes, func(n elector.NodeStatus) bool { return n.Fence > 0 || n.Holder != "" || n.Foreign != "" })
}

// Widths of the columns; 80 with the spaces between them.
const (
	nodeWidth   = 24
	stateWidth  = 9
	holderWidth = 20
)

func nodeTable(b *strings.Builder, nodes []elector.NodeStatus) {
	line := func(node, state, holder, fence, rtt string) {
		s := fmt.Sprintf("%-*s %-*s %-*s %-16s %s", nodeWidth, cut(node, nodeWidth), stateWidth, state,
			holderWidth, cut(holder, holderWidth), fence, rtt)
		b.WriteString(strings.TrimRight(s, " ") + "\n")
	}
	line("NODE", "STATE", "HOLDER", "FENCE", "RTT")
	for _, n := range nodes {
		switch {
		case !n.Reachable:
			line(n.Node, nodeState(n), "", "", "")
			b.WriteString(wrap(strings.TrimPrefix(n.Error, n.Node+": "), "    "))
		case n.Foreign != "":
			line(n.Node, "blocked", "-", fmt.Sprint(n.Fence), rough(n.RTT))
			b.WriteString(wrap(foreignLock(n), "    "))
		case n.Abstains > 0:
			line(n.Node, "abstains", or(n.Holder, "-"), fmt.Sprint(n.Fence), rough(n.RTT))
			b.WriteString(wrap("it is new, or lost its data: no vote for another "+rough(n.Abstains), "    "))
		default:
			line(n.Node, "ok", or(n.Holder, "-"), fmt.Sprint(n.Fence), rough(n.RTT))
		}
	}
}

// foreignLock describes a node that can't vote because of somebody else's lock.
func foreignLock(n elector.NodeStatus) string {
	end := "it has no end"
	if n.LeaseLeft > 0 {
		end = "it lasts for another " + rough(n.LeaseLeft)
	}
	return fmt.Sprintf("can't vote: its lock key holds %s, which no candidate wrote; %s", n.Foreign, end)
}

// nodeState is one word about a node that did not tell anything.
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

// cut shortens in the middle: both ends of an address or a host name matter.
func cut(s string, width int) string {
	r := []rune(printable(s))
	if len(r) <= width {
		return string(r)
	}
	tail := (width - 2) / 2
	return string(r[:width-2-tail]) + ".." + string(r[len(r)-tail:])
}

// wrap breaks words into lines of 80 columns, indented.
func wrap(s, indent string) string {
	var b strings.Builder
	col := 0
	for word := range strings.FieldsSeq(printable(s)) {
		switch {
		case col == 0:
			b.WriteString(indent)
			col = len(indent)
		case col+1+len(word) > 80:
			b.WriteString("\n" + indent)
			col = len(indent)
		default:
			b.WriteByte(' ')
			col++
		}
		b.WriteString(word)
		col += len(word)
	}
	if col == 0 {
		return ""
	}
	return b.String() + "\n"
}

// ago tells an age as the person on call would.
func ago(t time.Time) string {
	d := time.Since(t).Truncate(time.Second)
	switch {
	case d < 0:
		return "by a clock ahead of ours"
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d days ago", int(d.Hours())/24)
	default:
		return d.String() + " ago"
	}
}

// rough rounds a duration to what a person reads.
func rough(d time.Duration) string {
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= 10*time.Millisecond:
		return d.Round(time.Millisecond).String()
	default:
		return d.Round(10 * time.Microsecond).String()
	}
}
