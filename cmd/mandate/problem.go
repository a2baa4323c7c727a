package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/doctor"
)

// problem is what is wrong, the worst first, and the command to type next. Both are empty
// when nothing is.
func (r *report) problem() (why, next string) {
	name := r.Election
	show := r.flags.command("doctor", name)
	_, refuse := r.nodes()
	down := r.down()
	refusing := slices.IndexFunc(r.writes, func(f doctor.Finding) bool { return f.Level == doctor.LevelFail })
	leading := 0
	for _, c := range r.roll {
		if c.Role == elector.RoleLeading {
			leading++
		}
	}
	switch {
	case r.group != nil && r.err == nil:
		return r.group.problem(r.flags)
	case r.group != nil:
		return elector.Problem(r.err), r.flags.command("doctor")
	case r.err != nil:
		return "the leader is unknown: " + r.downText(), show
	case r.Conflict != "":
		return r.Conflict, show
	case leading > 1:
		return fmt.Sprintf("%d candidates lead at the same time, or the leader has just changed", leading), show
	case r.Blocked != "":
		return r.Blocked, show
	case 2*(refuse+down) >= len(r.Nodes) && refuse > 0:
		what := "no leader can be elected"
		if r.Leader != nil {
			what = "no other leader can be elected"
		}
		what = fmt.Sprintf("%s: %d of %d nodes %s writes (%s)", what, refuse, len(r.Nodes), verb(refuse, "refuses", "refuse"), r.writes[refusing].Found)
		if down > 0 {
			what += ", and " + r.downText()
		}
		return what, show
	case r.Leader == nil:
		return r.vacant(name)
	case r.unresponsive:
		return r.unresponsiveText(), r.flags.command("candidates", name)
	case down > 0:
		return r.downText(), show
	case refuse > 0:
		return fmt.Sprintf("%d of %d nodes %s writes (%s)", refuse, len(r.Nodes), verb(refuse, "refuses", "refuse"), r.writes[refusing].Found), show
	case differentNodes(r.roll, r.Nodes):
		return "the candidates vote with different nodes, so " + ofDifferentNodes(r.roll), show
	case abstains(r.Nodes) > 0: // the leader may have won without these
		return abstaining(r.Nodes), show
	case r.Paused:
		return "the election is paused (" + r.Pause + "): when " + r.Leader.Candidate + " stops, no other leader will be elected", r.flags.command("resume", name)
	}
	return r.candidateProblem()
}

// candidateProblem is what is wrong with the candidates beside a leader that works.
func (r *report) candidateProblem() (why, next string) {
	name := r.Election
	drift := doctor.Drift(r.roll)
	unable, resting, twins := 0, 0, doctor.Twins(r.roll)
	for _, c := range r.roll {
		if !c.Healthy && c.Outdated == "" { // older ones are there in every deploy
			unable++
		} else if c.RestFor > 0 { // after each step-down: no reason to worry
			resting++
		}
	}
	switch {
	case r.last != nil && len(r.last.Overlaps) > 0:
		return fmt.Sprintf("the last leader, %s, led at the same time as another one (token %s)", r.last.Candidate, overlapping(r.last.Overlaps)), r.flags.command("doctor", name)
	case r.rollErr != nil:
		return r.flapping()
	case len(twins) > 0:
		return strings.Join(twins, "; ") + ": give each its own", r.flags.command("candidates", name)
	case r.flaps != "" && len(drift) == 0: // what is wrong now goes before what was
		return r.flapping()
	case r.able() < 2 && r.drainedLeader() != nil:
		return r.Leader.Candidate + " is " + cordonedBy(*r.drainedLeader()) + ", and remains leader: no other candidate could take over" + r.firstUnable(), r.flags.command("candidates", name)
	case r.able() < 2 && r.cordonedOthers() != nil:
		c := r.cordonedOthers()
		return "no other candidate could take over: " + c.ID + " is " + cordonedBy(*c), r.flags.command("uncordon", c.ID)
	case r.able()+resting < 2 && len(r.roll) > 1:
		return "no other candidate could take over" + r.firstUnable(), r.flags.command("candidates", name)
	case unable > 0:
		return fmt.Sprintf("%d of %d candidates could not lead%s", unable, len(r.roll), r.firstUnable()), r.flags.command("candidates", name)
	case len(drift) > 0:
		return strings.Join(drift, "; "), r.flags.command("doctor", name)
	}
	return "", ""
}

// flapping is how often the leadership was lost, with the newest example of most of these ends.
func (r *report) flapping() (why, next string) {
	if r.flaps == "" {
		return "", ""
	}
	next = r.flags.command("history", r.Election)
	if t := r.flapped; t != nil && (t.Reason == elector.ReasonFailed || t.Reason == elector.ReasonPanicked) { // the history has the exit code at most
		next = "read the log of " + t.Candidate
		if i := slices.IndexFunc(r.roll, func(c elector.CandidateStatus) bool { return c.ID == t.Candidate && c.Host != "" }); i >= 0 {
			next += ", " + whereabouts(r.roll[i])
		}
	}
	return r.flaps + detailOf(r.flapped), next
}

// down is how many nodes could not be read.
func (r *report) down() (n int) {
	for _, node := range r.Nodes {
		if !node.Reachable {
			n++
		}
	}
	return n
}

// downText is which nodes could not be read, with the error of the first one.
func (r *report) downText() string {
	i := slices.IndexFunc(r.Nodes, func(n elector.NodeStatus) bool { return !n.Reachable })
	if i < 0 {
		return "the Redis nodes could not be read"
	}
	down, what := r.down(), ""
	switch n := r.Nodes[i]; {
	case n.Answered || n.Denied:
		what = verb(down, "refuses", "refuse")
	default:
		what = verb(down, "does not answer", "do not answer")
	}
	return fmt.Sprintf("%d of %d nodes %s (%s: %s)", down, len(r.Nodes), what, r.Nodes[i].Node, strings.TrimPrefix(r.Nodes[i].Error, r.Nodes[i].Node+": "))
}

// verb agrees with the number of nodes.
func verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// recently is how long the last end stays in the first line.
const recently = time.Hour

// justEnded reports whether the last end is recent enough for the first line.
func (r *report) justEnded(now time.Time) bool {
	return r.last != nil && r.Leader != nil && (r.last.Until.IsZero() || now.Sub(r.last.Until) < recently) &&
		!r.Leader.Since.IsZero() && now.Sub(r.Leader.Since) < recently
}

// headline is the first lines of a report: what happened, and what to type next.
func (r *report) headline(now time.Time) []output.Field {
	why, next := r.problem()
	if why != "" {
		return []output.Field{{Name: "problem", Text: why, Color: output.Red}, {Name: "next", Text: next, Color: output.Yellow}}
	}
	fields := []output.Field{{Name: "ok", Text: r.Leader.Candidate + " leads", Color: output.Green}}
	if r.justEnded(now) {
		fields[0].Text += "; before it " + r.lastEnd()
		if !r.last.Reason.Wanted() {
			fields = append(fields, output.Field{Name: "next", Text: r.flags.command("history", r.Election), Color: output.Yellow})
		}
	}
	return fields
}

// unresponsiveText is what to expect of a leader that does not answer.
func (r *report) unresponsiveText() string {
	left := r.leaseLeft(time.Now())
	end := "replaced in " + output.Brief(left) + " unless it renews"
	if r.Paused || r.able() == 0 {
		end = "its lease ends in " + output.Brief(left) + " unless it renews, and no candidate could replace it"
	}
	if left == 0 {
		end = "its lease has just ended"
	}
	return fmt.Sprintf("the leader %s does not answer: it may hang or be dead; %s", r.Leader.Candidate, end)
}

// vacant is why there is no leader.
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
	case r.cordonedOthers() != nil:
		c := r.cordonedOthers()
		return "every candidate is cordoned: " + c.ID + " is " + cordonedBy(*c), r.flags.command("uncordon", c.ID)
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

// tooFewVote reports whether so many nodes are new, or have lost their data, that none can be elected now.
func (r *report) tooFewVote() bool {
	abstain := 0
	for _, n := range r.Nodes {
		if n.Abstains > 0 {
			abstain++
		}
	}
	return 2*abstain >= len(r.Nodes)
}

// firstElection is no reason to worry, but a new node might remember no other leader.
func firstElection(abstain time.Duration) string {
	return "first election: nodes vote in " + output.Brief(abstain)
}

// allOutdated reports whether nothing but their versions keeps the candidates from leading.
func (r *report) allOutdated() bool {
	found := false
	for _, c := range r.roll {
		if found = found || c.Outdated != ""; c.Outdated == "" && c.Role != elector.RoleObserving {
			return false
		}
	}
	return found
}

// cordonedOthers is the first cordon if nothing but cordons keeps the candidates that do not
// lead from it; nil: something else does, or there are none.
func (r *report) cordonedOthers() (found *elector.Cordon) {
	for _, c := range r.roll {
		switch {
		case c.Role == elector.RoleLeading, c.Role == elector.RoleObserving:
		case c.Cordoned == nil:
			return nil
		case found == nil:
			found = c.Cordoned
		}
	}
	return found
}

// drainedLeader is the cordon with which the leader is to hand over; nil: none is.
func (r *report) drainedLeader() *elector.Cordon {
	for _, c := range r.roll {
		if c.Role == elector.RoleLeading && c.Cordoned != nil && c.Cordoned.Drain {
			return c.Cordoned
		}
	}
	return nil
}

// cordons are those that keep a candidate of the election from campaigning, each once.
func (r *report) cordons() (all []elector.Cordon) {
	for _, c := range r.roll {
		if c.Cordoned != nil && !slices.Contains(all, *c.Cordoned) {
			all = append(all, *c.Cordoned)
		}
	}
	return all
}

// firstUnable is what keeps one candidate from leading, as an example.
func (r *report) firstUnable() string {
	rest := ""
	for _, c := range r.roll {
		switch {
		case c.Role == elector.RoleLeading, c.Role == elector.RoleObserving:
		case !c.Healthy && c.Detail != "":
			return fmt.Sprintf(" (%s: %s)", c.ID, c.Detail)
		case rest != "":
		case c.Cordoned != nil:
			rest = fmt.Sprintf(" (%s is %s)", c.ID, cordonedBy(*c.Cordoned))
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
