package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
)

// vacant returns why there is no leader, and the command to type next.
func (r *report) vacant(name string) (why, next string) {
	abstain := abstains(r.Nodes)
	switch {
	case r.ofGroup:
		return "this is a group of shards, not an election", r.flags.command("shards", name)
	case r.unknownElection():
		return "no trace of an election of this name", r.flags.command("ls")
	case r.Paused:
		return "the election is paused (" + r.Pause + ")", r.flags.command("resume", name)
	case r.rollErr != nil && abstain > 0 && r.first():
		return firstElection(abstain), r.flags.command("wait", name)
	case r.rollErr != nil:
		return "no leader", r.flags.command("candidates", name)
	case r.leadsElsewhere() != nil:
		c := r.leadsElsewhere()
		return fmt.Sprintf("%s leads, but not by the %s given here: it votes with %s", c.ID, counted(len(r.Nodes), "node"), votes(c.Nodes)), r.flags.command("doctor", name)
	case len(r.roll) == 0:
		return "no candidate answers: none is running, or they use other nodes or another prefix", r.flags.command("history", name)
	case r.observers() == len(r.roll):
		return fmt.Sprintf("only observers are left (%d): none of them campaigns", len(r.roll)), r.flags.command("candidates", name)
	case r.flaps != "" && !r.tooFewVote() && !slices.ContainsFunc(r.roll, func(c elector.CandidateStatus) bool { return !c.Healthy }):
		return r.flapping()
	case r.allOutdated():
		return "every candidate is older than " + r.Version + ", which has led" + r.firstUnable(), r.flags.command("allow-older", name)
	case r.able() == 0:
		return "no candidate can lead" + r.firstUnable(), r.flags.command("candidates", name)
	case abstain > 0 && r.first():
		return firstElection(abstain), r.flags.command("wait", name)
	case abstain > 0:
		return abstaining(r.Nodes), r.flags.command("wait", name)
	default:
		return "candidates are there: an election may be under way", r.flags.command("wait", name)
	}
}

// tooFewVote reports whether so many nodes are new, or have lost their data, that no candidate can
// be elected now.
func (r *report) tooFewVote() bool {
	abstain := 0
	for _, n := range r.Nodes {
		if n.Abstains > 0 {
			abstain++
		}
	}
	return 2*abstain >= len(r.Nodes)
}

// firstElection describes the wait before the first election. It is normal: the nodes may be new,
// and so might have forgotten a leader.
func firstElection(abstain time.Duration) string {
	return "first election: nodes vote in " + output.Brief(abstain)
}

// allOutdated reports whether only their versions keep the candidates from leading.
func (r *report) allOutdated() bool {
	found := false
	for _, c := range r.roll {
		if found = found || c.Outdated != ""; c.Outdated == "" && c.Role != elector.RoleObserving {
			return false
		}
	}
	return found
}

// flapping returns how often the leadership was lost, with the newest example of the most frequent
// reason, and the command to type next.
func (r *report) flapping() (why, next string) {
	if r.flaps == "" {
		return "", ""
	}
	next = r.flags.command("history", r.Election)
	if t := r.flapped; t != nil && (t.Reason == elector.ReasonFailed || t.Reason == elector.ReasonPanicked) { // the history has at most the exit code
		next = "read the log of " + t.Candidate
		if i := slices.IndexFunc(r.roll, func(c elector.CandidateStatus) bool { return c.ID == t.Candidate && c.Host != "" }); i >= 0 {
			next += ", " + whereabouts(r.roll[i])
		}
	}
	return r.flaps + detailOf(r.flapped), next
}

// firstUnable returns what keeps one of the candidates from leading, as an example.
func (r *report) firstUnable() string {
	rest := ""
	for _, c := range r.roll {
		switch {
		case c.Role == elector.RoleLeading, c.Role == elector.RoleObserving:
		case !c.Healthy && c.Detail != "":
			return fmt.Sprintf(" (%s: %s)", c.ID, c.Detail)
		case rest != "":
		case c.RestFor > 0:
			rest = fmt.Sprintf(" (%s rests for another %s)", c.ID, output.Brief(c.RestFor))
		case c.Role != elector.RoleFollowing:
			rest = fmt.Sprintf(" (%s is %s)", c.ID, c.Role)
		}
	}
	if i := slices.IndexFunc(r.roll, func(c elector.CandidateStatus) bool {
		return c.Role == elector.RoleLeading && !c.Healthy && c.Detail != ""
	}); rest == "" && i >= 0 {
		rest = fmt.Sprintf(" (%s, which leads: %s)", r.roll[i].ID, r.roll[i].Detail)
	}
	return rest
}
