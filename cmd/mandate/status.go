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

func statusCommand(c *connection) *cobra.Command {
	var wide, asJSON bool
	cmd := &cobra.Command{
		Use:   "status NAME",
		Short: "Show the leader of an election, and what is wrong with it",
		Long: `Show the election NAME: its leader, how many of its candidates could lead, its
Redis nodes, how the last term ended. The first line is "problem", with what is
wrong now and the command to type next, or "ok", with the last end if it is less
than an hour ago; "also" is what else is wrong, "note" what was wrong lately. It
answers within 2 s whatever Redis does.

--wide lists the candidates that answer, the leader first. One that hangs or is
cut off from Redis is missing. UNHEALTHY: its probes fail. UNABLE: Redis or its
configuration keeps it from leading; the line below shows what.
The Redis user needs the right to publish roll calls.

A node is ok if it accepts writes, too: one that is out of memory or disk
answers queries, and lets no leader be elected. To find out it sets a key of its
own (prefix:{NAME}:check) for 100 ms. Where the Redis user may not write, that
is reported.`,
		Example: `  mandate status poller
  mandate status poller --wide
  mandate status poller --json | jq -r '.roll[] | select(.healthy | not) | .id'`,
		PreRunE: c.openElection,
		RunE:    c.onElection(func(ctx context.Context, el *elector.Election) error { return showStatus(ctx, c, el, wide, asJSON) }),
	}
	cmd.Flags().BoolVar(&wide, "wide", false, "also list the candidates, with exact times")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func showStatus(ctx context.Context, c *connection, el *elector.Election, wide, asJSON bool) error {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	r := report{flags: c.given}
	r.Writes = whileRead(ctx, c.quorum, el.Name(), func() { r.Report = doctor.Read(ctx, el, doctor.RecentTerms) })
	if err := printStatus(c.terminal, &r, wide, asJSON); err != nil {
		return err
	}
	switch {
	case !r.leaderKnown(): // the first lines show why
		return &exitError{code: exitUnreachable, err: errors.New("the leader is unknown"), quiet: true}
	case r.Leader == nil:
		return &exitError{code: exitNoLeader, err: errors.New("no leader"), quiet: true}
	}
	return nil
}

func printStatus(t *terminal, r *report, wide, asJSON bool) error {
	if asJSON {
		return output.JSON(t.stdout, r)
	}
	p, problems := output.New(t.stdout), r.problems()
	head := r.headline(problems, time.Now())
	for _, f := range r.Findings(r.flags.command) {
		switch {
		case f.Level == doctor.LevelNote:
			head.Add("note", sentence(f)+" -> "+f.Advice, output.Plain)
		case f.Check == doctor.CheckUnseen:
			head.Add("unseen", f.Found, output.Plain)
		}
	}
	lines := p.Fields(append(head, r.fields(problems, wide)...))
	if wide && len(r.Candidates) > 0 {
		lines = append(append(lines, ""), p.Table(candidateTable(r.Candidates))...)
	}
	return p.Lines(append(append(lines, ""), p.Table(nodeTable(r, wide))...))
}

// recently is how long the last end is shown in the first line.
const recently = time.Hour

// headline returns the first lines: what is wrong and what to do about it, or else who leads, with
// the last end if that was a short time ago.
func (r *report) headline(problems []doctor.Finding, now time.Time) (fields output.Fields) {
	for i, f := range problems {
		switch {
		case i == 0:
			fields.Add("problem", sentence(f), levelColor(f.Level))
			fields.Add("next", f.Advice, output.Yellow)
		case f.Check != "leader": // which has a field of its own
			fields.Add("also", strings.TrimSuffix(sentence(f)+" -> "+f.Advice, " -> "), levelColor(f.Level))
		}
	}
	switch {
	case len(problems) == 0 && r.Finished():
		fields.Add("ok", "no leader: the last work ended without an error", output.Green)
		return fields
	case len(problems) > 0 || r.Leader == nil:
		return fields
	}
	ok, next := r.Leader.Candidate+" leads", ""
	if r.justEnded(now) {
		ok += "; before it " + r.lastEndText()
		if !r.lastEnd().Reason.Wanted() {
			next = r.flags.command("history", r.Election)
		}
	}
	fields.Add("ok", ok, output.Green)
	fields.Add("next", next, output.Yellow)
	return fields
}

// justEnded reports whether the last end is recent enough for the first line.
func (r *report) justEnded(now time.Time) bool {
	last := r.lastEnd()
	return last != nil && r.Leader != nil && (last.Until.IsZero() || now.Sub(last.Until) < recently) &&
		!r.Leader.Since.IsZero() && now.Sub(r.Leader.Since) < recently
}

// fields are what is known of the election.
func (r *report) fields(problems []doctor.Finding, wide bool) output.Fields {
	fields := output.Fields{{Name: "election", Text: r.Election}}
	switch l := r.Leader; {
	case l != nil:
		fields.Add("leader", l.Candidate, output.Green)
		fields.Add("address", l.Advertise, output.Plain)
		fields.Add("token", fmt.Sprint(l.Token), output.Plain)
		if !l.Since.IsZero() {
			layout := dateTimeZone
			if wide {
				layout = time.RFC3339Nano
			}
			fields.Add("since", fmt.Sprintf("%s (%s)", l.Since.Local().Format(layout), output.Ago(l.Since)), output.Plain)
		}
		if wide {
			fields.Add("incarnation", l.Incarnation, output.Plain)
		}
		fields.Add("lease left", output.Brief(r.LeaseLeft()), output.Plain)
	case r.MayLead != nil:
		fields.Add("leader", "unknown; "+r.MayLead.Candidate+" may lead", output.Red)
	case !r.leaderKnown():
		fields.Add("leader", "unknown", output.Red)
	case traceless(r.Status) && len(r.Candidates) == 0: // neither the nodes nor a candidate knows it
		fields.Add("leader", "none; "+noTrace, output.Red)
	default:
		fields.Add("leader", "none", output.Red)
	}
	if r.Unprobed() {
		fields.Add("probe", "none: nobody would notice work that hangs", output.Plain)
	}
	fields.Add("candidates", r.candidatesText(), output.Plain)
	if r.lastEnd() != nil && (len(problems) > 0 || !r.justEnded(time.Now())) { // else it is in the first line
		fields.Add("last end", r.lastEndText(), output.Plain)
	}
	if r.Paused {
		fields.Add("paused", pauseText(r.Status), output.Red)
	}
	return fields
}

func (r *report) candidatesText() string {
	text := r.ableOf() + " able to lead"
	switch {
	case errors.Is(r.CandidatesErr, elector.ErrDenied):
		return "not known: this Redis user may not call the roll"
	case r.CandidatesErr != nil:
		return "not known"
	case len(r.Candidates)+len(r.Others) == 0: // one that Redis lets not subscribe may lead
		return "none answers"
	}
	if len(r.Others) > 0 {
		text += fmt.Sprintf("; of another version: %d", len(r.Others))
	}
	return text
}

// lastEndText describes the newest term that has ended.
func (r *report) lastEndText() string {
	t := r.lastEnd()
	text := t.Candidate + ": " + string(t.Reason)
	switch {
	case t.Reason == elector.ReasonVanished && r.Leader != nil && !r.Leader.Since.IsZero():
		text += ", at the latest " + output.Ago(r.Leader.Since)
	case t.Until.IsZero():
	case r.Leader != nil && t.Until.After(r.Leader.Since) && !r.Leader.Since.IsZero(): // the leader was suspended, or cut off
		text += ", reported " + output.Ago(t.Until)
	default:
		text += ", " + output.Ago(t.Until)
	}
	if t.Detail != "" {
		text += " (" + t.Detail + ")"
	}
	return text
}

// pauseText describes since when an election is paused, and for how long.
func pauseText(st elector.Status) string {
	text, since := "until it is resumed", ""
	if st.PauseLeft > 0 {
		text = "for another " + output.Brief(st.PauseLeft)
	}
	if !st.PauseSince.IsZero() {
		since = "since " + st.PauseSince.Local().Format(dateTimeZone) + ", "
	}
	return since + text + ": no new leader will be elected"
}

// candidateTable has a row for each candidate that answered the roll call.
func candidateTable(all []elector.CandidateStatus) *output.Table {
	t := output.NewTable("CANDIDATE", "ROLE", "HEALTH", "PROBES", "PRIORITY", "RUNNING", "VERSION", "HOST", "PROCESS", "ADDRESS", "INCARNATION")
	for _, c := range all {
		color, health := candidateHealth(c)
		process := ""
		if c.PID != 0 {
			process = fmt.Sprint(c.PID)
		}
		t.Row(color, c.ID, c.Role, health, cmp.Or(strings.Join(c.Probes, " "), "none"), fmt.Sprint(c.Priority), output.Brief(c.RunningFor), c.Version, c.Host, process, c.Advertise, c.Incarnation)
		t.Note(color, c.Detail)
		if c.RestFor > 0 {
			after := "its term"
			if c.RestReason != "" {
				after += " (" + c.RestReason + ")"
			}
			t.Note(color, "it rests after "+after+", and campaigns again in "+output.Brief(c.RestFor))
		}
	}
	return t
}

// nodeStates are the states of a node that answers, by the check that fails.
var nodeStates = map[string]string{"write": "no writes", "lock": "blocked", "vote": "abstains", "refuses": "refusing", "unreached": "unreached"}

// nodeTable has a row for each node. A wide table also shows the highest token that the node knows,
// which may be below the leader's until its first renewal, or above it after a failed claim.
func nodeTable(r *report, wide bool) *output.Table {
	t := output.NewTable("NODE", "STATE", "HOLDER", "RTT", "FENCE")
	findings := append(slices.Clone(r.Writes), r.Findings(nil)...)
	for _, n := range r.Nodes {
		state, color := nodeState(n), output.Plain
		for _, f := range findings {
			if f.Node == n.Node && f.Level.Worse(doctor.LevelUnknown) && state == "ok" {
				state = cmp.Or(nodeStates[f.Check], state)
				if strings.HasPrefix(f.Found, "OOM ") {
					state = "full"
				}
			}
		}
		if state != "ok" {
			color = output.Red
		}
		cells := []string{n.Node, state}
		if n.Reachable {
			cells = append(cells, cmp.Or(n.Holder, "-"), output.Brief(n.RTT))
			if wide {
				cells = append(cells, fmt.Sprint(n.Fence))
			}
		}
		t.Row(color, cells...)
		t.Note(color, n.Error)
	}
	return t
}

// nodeState returns one word for whether a node could be read.
func nodeState(n elector.NodeStatus) string {
	switch {
	case n.Reachable:
		return "ok"
	case n.Denied:
		return "denied"
	case n.Answered:
		return "error"
	default:
		return "down"
	}
}
