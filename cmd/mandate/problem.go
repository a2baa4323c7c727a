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

// problem returns the most serious problem, and the command to type next. Both are empty if there
// is no problem.
func (r *report) problem() (why, next string) {
	name := r.Election
	show := r.flags.command("doctor", name)
	_, refuse := r.nodes()
	down := r.down()
	refusing := slices.IndexFunc(r.writes, func(f doctor.Finding) bool { return f.Level == doctor.LevelFail })
	refusals := doctor.Refusals(r.roll)
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
	case len(refusals) > 0: // the user of this command may have rights that the candidates lack
		return refusals[0].Node + " " + refusals[0].String(), show
	case differentNodes(r.roll, r.Nodes):
		return "the candidates vote with different nodes, so " + ofDifferentNodes(r.roll), show
	case abstains(r.Nodes) > 0: // the leader may have been elected without these nodes
		return abstaining(r.Nodes), show
	case r.Paused:
		return "the election is paused (" + r.Pause + "): when " + r.Leader.Candidate + " stops, no other leader will be elected", r.flags.command("resume", name)
	}
	return r.candidateProblem()
}

// candidateProblem returns what is wrong with the candidates while the leader works.
func (r *report) candidateProblem() (why, next string) {
	name := r.Election
	drift := doctor.Drift(r.roll)
	unable, resting, twins := 0, 0, doctor.Twins(r.roll)
	for _, c := range r.roll {
		if !c.Healthy && c.Outdated == "" { // candidates of an older version exist in every deploy
			unable++
		} else if c.RestFor > 0 { // candidates rest after each step-down: this is no problem
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
	case r.flaps != "" && len(drift) == 0: // a current problem goes before a past one
		return r.flapping()
	case r.able()+resting < 2 && len(r.roll) > 1:
		return "no other candidate could take over" + r.firstUnable(), r.flags.command("candidates", name)
	case unable > 0:
		return fmt.Sprintf("%d of %d candidates could not lead%s", unable, len(r.roll), r.firstUnable()), r.flags.command("candidates", name)
	case len(drift) > 0:
		return strings.Join(drift, "; "), r.flags.command("doctor", name)
	}
	return "", ""
}

// down returns how many nodes could not be read.
func (r *report) down() (n int) {
	for _, node := range r.Nodes {
		if !node.Reachable {
			n++
		}
	}
	return n
}

// downText reports how many nodes could not be read, with the error of the first one.
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

// recently is how long the last end is shown in the first line.
const recently = time.Hour

// justEnded reports whether the last end is recent enough for the first line.
func (r *report) justEnded(now time.Time) bool {
	return r.last != nil && r.Leader != nil && (r.last.Until.IsZero() || now.Sub(r.last.Until) < recently) &&
		!r.Leader.Since.IsZero() && now.Sub(r.Leader.Since) < recently
}

// headline returns the first lines of a report: what happened, and what to type next.
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

// unresponsiveText describes what to expect of a leader that does not answer.
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
