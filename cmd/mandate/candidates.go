package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
)

// candidateTable has a row for each candidate that answered the roll call. nodes tell whether
// candidates vote with different ones.
func candidateTable(all []elector.CandidateStatus, nodes []elector.NodeStatus) *output.Table {
	t := output.NewTable(output.Column{Title: "CANDIDATE", Name: true}, output.Column{Title: "ROLE"}, output.Column{Title: "HEALTH"},
		output.Column{Title: "PRIORITY", Right: true}, output.Column{Title: "RUNNING", Right: true}, output.Column{Title: "VERSION", Name: true},
		output.Column{Title: "HOST"}, output.Column{Title: "PROCESS"}, output.Column{Title: "STARTED"}, output.Column{Title: "ADDRESS"}, output.Column{Title: "INCARNATION"})
	differ, otherNodes := differencesOf(all), differentNodes(all, nodes)
	for _, c := range all {
		color, health := candidateHealth(c)
		started, process := "", ""
		if c.RunningFor > 0 {
			started = time.Now().Add(-c.RunningFor).Format(time.RFC3339) // candidates send a duration, so this is by our clock
		}
		if c.PID != 0 {
			process = fmt.Sprint(c.PID)
		}
		t.Row(color, c.ID, c.Role, health, fmt.Sprint(c.Priority), output.Age(c.RunningFor), c.Version,
			c.Host, process, started, c.Advertise, c.Incarnation)
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
	case c.Leads():
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
