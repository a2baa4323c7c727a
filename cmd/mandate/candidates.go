package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
)

func (a *app) candidatesCommand() *cobra.Command {
	var f format
	cmd := &cobra.Command{
		Use:   "candidates NAME",
		Short: "List the candidates of an election with role and health",
		Long: `List the candidates of the election NAME, the leader first. It sends a query to
all of them and waits for the answers, at most three seconds; a candidate that
hangs or is cut off from Redis is missing.

UNHEALTHY: its probes fail. UNABLE: something else keeps it from leading, Redis
or its configuration; the line below shows what. Settings in which candidates
differ are noted below each. The Redis user needs the right to publish roll
calls, which all users of docs/redis.md have.

Exit codes
  0  there are candidates
  2  invalid flags or arguments
  3  no candidate answers
  4  no majority of the Redis nodes answered`,
		Example: `  mandate candidates poller
  mandate candidates poller --json | jq -r '.[] | select(.healthy | not) | .id'`,
		Args:    cobra.ArbitraryArgs,
		PreRunE: a.openElection,
		RunE: a.onElection(func(ctx context.Context, el *elector.Election) error {
			all, err := el.Candidates(ctx)
			if err != nil {
				return err
			}
			var nodes []elector.NodeStatus
			if !sameNodes(all) {
				st, _ := el.Status(ctx) // without the status the nodes seem to differ, which doctor explains
				nodes = st.Nodes
			}
			if err := a.printCandidates(all, nodes, f); err != nil {
				return err
			}
			if len(all) > 0 {
				return nil
			}
			why := fmt.Errorf("no candidates in %s", el.Name())
			switch st, err := el.Status(ctx); {
			case err != nil:
			case st.Blocked != "":
				why = fmt.Errorf("%w, and no candidate can lead: %s (%s)", why, st.Blocked, a.given.command("doctor", el.Name()))
			case traceless(st):
				why = fmt.Errorf("%w; %s", why, noTrace)
			case st.Leader != nil:
				why = fmt.Errorf("no candidate answers in %s, although %s leads: it may hang, or its Redis user lacks the right to subscribe (docs/redis.md)", el.Name(), st.Leader.Candidate)
			}
			return &exitError{code: exitNoLeader, err: why}
		}),
	}
	formatFlags(cmd, &f, "print one JSON array")
	return cmd
}

// printCandidates prints a roll. nodes are needed only if the candidates' lists of nodes differ.
func (a *app) printCandidates(all []elector.CandidateStatus, nodes []elector.NodeStatus, f format) error {
	p := a.printer(f)
	switch {
	case f.json:
		return output.JSON(a.stdout, append([]elector.CandidateStatus{}, all...)) // never null
	case len(all) == 0:
		return nil
	}
	lines := p.Table(candidateTable(all, nodes, f.wide, true))
	if differentNodes(all, nodes) {
		lines = append(lines, p.Wrap("They vote with different nodes, so "+ofDifferentNodes(all)+": give all the same list ("+a.given.command("doctor", a.election.Name())+").", 0)...)
	}
	return p.Lines(lines)
}

// candidateTable has a row for each candidate. With hosts set it also shows where each one runs; a
// wide table has columns for that.
func candidateTable(all []elector.CandidateStatus, nodes []elector.NodeStatus, wide, hosts bool) *output.Table {
	t := output.NewTable(output.Column{Title: "CANDIDATE", Name: true}, output.Column{Title: "ROLE"}, output.Column{Title: "HEALTH"},
		output.Column{Title: "PRIORITY", Right: true}, output.Column{Title: "RUNNING", Right: true}, output.Column{Title: "VERSION", Name: true},
		output.Column{Title: "HOST"}, output.Column{Title: "PROCESS"}, output.Column{Title: "STARTED"}, output.Column{Title: "ADDRESS"}, output.Column{Title: "INCARNATION"})
	differ, otherNodes := differencesOf(all), differentNodes(all, nodes)
	priorities := wide || slices.ContainsFunc(all, func(c elector.CandidateStatus) bool { return c.Priority != 0 })
	for _, c := range all {
		priority := "" // stays empty if no candidate has a priority
		if priorities {
			priority = fmt.Sprint(c.Priority)
		}
		color, health := candidateHealth(c)
		cells := []string{c.ID, string(c.Role), health, priority, output.Age(c.RunningFor), c.Version}
		if wide {
			started, process := "", ""
			if c.RunningFor > 0 {
				started = time.Now().Add(-c.RunningFor).Format(time.RFC3339) // candidates send a duration, so this is by our clock
			}
			if c.PID != 0 {
				process = fmt.Sprint(c.PID)
			}
			cells = append(cells, c.Host, process, started, c.Advertise, c.Incarnation)
		}
		t.Row(color, cells...)
		if hosts && !wide {
			t.Note(color, whereabouts(c))
		}
		if slices.ContainsFunc(all, func(o elector.CandidateStatus) bool { return o.ID == c.ID && o.Incarnation != c.Incarnation }) {
			t.Note(output.Red, "another candidate has the same id: give each its own id")
		}
		if otherNodes {
			t.Note(output.Red, "votes with: "+nodeNames(c))
		}
		if differ.lease {
			t.Note(output.Yellow, "its lease is "+c.Lease.String())
		}
		if differ.succession {
			t.Note(output.Yellow, "its succession is "+c.Succession)
		}
		if c.RestFor > 0 {
			t.Note(color, resting(c))
		}
		t.Note(color, c.Detail)
		for _, n := range c.Nodes {
			if n.Refusal != "" && !strings.Contains(c.Detail, n.Refusal) {
				t.Note(output.Red, strings.TrimSuffix(n.Name+" refuses it: "+n.Refusal+" -> "+n.Remedy, " -> "))
			}
		}
	}
	return t
}

// resting describes why a candidate rests and until when.
func resting(c elector.CandidateStatus) string {
	after := "its term"
	if c.RestReason != "" {
		after += " (" + c.RestReason + ")"
	}
	return "it rests after " + after + ", and campaigns again in " + output.Brief(c.RestFor)
}

// whereabouts describes where a candidate runs, and where it can be reached.
func whereabouts(c elector.CandidateStatus) string {
	var all []string
	if c.Host != "" {
		all = append(all, "host "+c.Host)
	}
	if c.PID != 0 {
		all = append(all, fmt.Sprintf("process %d", c.PID))
	}
	if c.Advertise != "" {
		all = append(all, "address "+c.Advertise)
	}
	return strings.Join(all, ", ")
}

// differences are settings that differ although all candidates should share them. The version,
// which has a column, is not among them: it differs during every deploy.
type differences struct{ lease, succession bool }

func differencesOf(all []elector.CandidateStatus) (d differences) {
	for _, c := range all {
		d.lease = d.lease || c.Lease != all[0].Lease && c.Lease != 0 && all[0].Lease != 0
		d.succession = d.succession || c.Succession != all[0].Succession && c.Succession != "" && all[0].Succession != ""
	}
	return d
}

func candidateHealth(c elector.CandidateStatus) (output.Color, string) {
	switch {
	case c.Unable:
		return output.Red, "UNABLE"
	case !c.Healthy:
		return output.Yellow, "UNHEALTHY"
	case c.RestFor > 0:
		return output.Plain, "rests"
	case c.Role == elector.RoleLeading:
		return output.Green, "ok"
	default:
		return output.Plain, "ok"
	}
}

// differentNodes reports whether candidates vote with different nodes. While a node abstains this
// is unknown, and not reported: not all candidates have contacted that node since it was emptied.
func differentNodes(all []elector.CandidateStatus, nodes []elector.NodeStatus) bool {
	return !sameNodes(all) && abstains(nodes) == 0
}

// ofDifferentNodes describes what happens when candidates vote with different nodes: a candidate
// that finds the lock of one with other nodes refuses to lead, but two candidates that have no node
// in common never notice each other.
func ofDifferentNodes(all []elector.CandidateStatus) string {
	for i, a := range all {
		for _, b := range all[:i] {
			if len(a.Nodes) > 0 && len(b.Nodes) > 0 && !slices.ContainsFunc(a.Nodes, func(n elector.VotingNode) bool { return votesWith(b, n) }) {
				return "two of them can lead"
			}
		}
	}
	return "not all can replace the leader, and two can lead while no node that both list answers both"
}

// votesWith compares nodes by their identity, or by name if an identity is unknown.
func votesWith(c elector.CandidateStatus, n elector.VotingNode) bool {
	return slices.ContainsFunc(c.Nodes, func(other elector.VotingNode) bool {
		if n.Identity != "" && other.Identity != "" {
			return n.Identity == other.Identity
		}
		return n.Name == other.Name
	})
}

// abstains returns the longest time for which a node will not vote because it is new or lost its
// data.
func abstains(nodes []elector.NodeStatus) (left time.Duration) {
	for _, n := range nodes {
		left = max(left, n.Abstains)
	}
	return left
}

// sameNodes reports whether all candidates use the same list of nodes.
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
	var names []string
	for _, n := range c.Nodes {
		names = append(names, cmp.Or(n.Name, "?"))
	}
	return strings.Join(names, " ")
}
