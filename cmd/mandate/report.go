package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/doctor"
)

// report describes an election for an operator: what its nodes, its candidates and its history
// show, and what is wrong.
type report struct {
	elector.Status

	flags        nextFlags
	group        *groupReport              // not nil: this report is one row for all shards of a group
	at           time.Time                 // when the status was read
	err          error                     // of reading the status
	roll         []elector.CandidateStatus // the candidates that answered
	rollErr      error                     // why the roll is unknown
	ofGroup      bool                      // the name is that of a group of shards, and not of an election
	unresponsive bool                      // the leader does not answer, see doctor.Unresponsive
	writes       []doctor.Finding          // one for each node; empty: not tried
	terms        []elector.TermRecord      // the newest ones, newest first
	last         *elector.TermRecord       // the newest term that has ended
	unread       bool                      // the terms could not be read
	unused       bool                      // without candidates the election counts as abandoned, see longGone
}

// examine makes a report. It reads its sources concurrently, until ctx ends.
func examine(ctx context.Context, q *elector.Quorum, el *elector.Election, tryWrites bool) report {
	var r report
	var wg sync.WaitGroup
	var terms []elector.TermRecord
	var unread error
	wg.Go(func() { r.roll, r.rollErr = el.Candidates(ctx) })
	wg.Go(func() { terms, unread = el.History(ctx, doctor.RecentTerms) })
	if tryWrites {
		wg.Go(func() { r.writes, _ = doctor.Writable(ctx, q, el.Name()) }) // the only error is an invalid name, which was checked before
	}
	r.readStatus(ctx, el)
	wg.Wait()
	if unread != nil {
		terms = nil
	}
	r.evaluateTerms(terms, time.Now())
	r.unread, r.unused = unread != nil, unread == nil && longGone(terms, time.Now())
	if r.rollErr == nil && len(r.roll) == 0 && ctx.Err() != nil {
		r.rollErr = errors.New("no answer in time")
	}
	r.checkLeader(ctx, el)
	r.ofGroup = r.err == nil && r.unknownElection() && namesGroup(ctx, q, el.Name())
	return r
}

func (r *report) readStatus(ctx context.Context, el *elector.Election) {
	r.Status, r.err = el.Status(ctx)
	r.at = time.Now()
}

// evaluateTerms finds the newest term that has ended. The roll must have been read before.
func (r *report) evaluateTerms(terms []elector.TermRecord, now time.Time) {
	ended := slices.IndexFunc(terms, func(t elector.TermRecord) bool { return !t.Current && t.Reason != "" })
	r.terms = doctor.Unreported(terms, r.roll, now)
	if ended >= 0 {
		r.last = &r.terms[ended]
	}
}

// missed is for how long an election with neither a leader nor candidates counts as an outage. After
// that it seems to be unused.
const missed = 24 * time.Hour

// longGone reports whether an election that has no leader counts as abandoned, judging by its
// terms. One whose end was never reported may have lasted until a moment ago.
func longGone(terms []elector.TermRecord, now time.Time) bool {
	if len(terms) == 0 {
		return true
	}
	return !terms[0].Until.IsZero() && now.Sub(terms[0].Until) > missed
}

// leaseLeft returns what is left of the leader's lease at now: the other sources of a report take
// longer to read than the status, in which it was counted.
func (r *report) leaseLeft(now time.Time) time.Duration {
	if r.at.IsZero() {
		return r.Leader.LeaseLeft
	}
	return max(0, r.Leader.LeaseLeft-now.Sub(r.at))
}

// checkLeader checks whether the leader is among the candidates that answered. If the roll is
// unknown, the leader does not count as unresponsive.
func (r *report) checkLeader(ctx context.Context, el *elector.Election) {
	if r.err != nil || r.rollErr != nil || r.Leader == nil {
		return
	}
	leader := *r.Leader
	leader.LeaseLeft = r.leaseLeft(time.Now())
	r.unresponsive = doctor.Unresponsive(ctx, el, leader, r.roll)
	if !r.unresponsive && r.leaseLeft(time.Now()) == 0 { // it renewed, released or was replaced meanwhile
		r.readStatus(ctx, el)
	}
}

func (r *report) state() string {
	switch {
	case r.err == nil && r.group != nil:
		return r.group.state()
	case r.err != nil || !majorityAnswered(r.Status):
		return stateUnknown
	case r.Leader != nil:
		return stateLed
	case r.Paused:
		return statePaused
	case r.rollErr != nil:
		return stateNone
	case len(r.roll) == 0 && r.unused:
		return stateAbandoned
	default:
		return stateVacant
	}
}

// able returns how many candidates lead or could be elected now.
func (r *report) able() int {
	n := 0
	for _, c := range r.roll {
		if c.Able() {
			n++
		}
	}
	return n
}

func (r *report) candidates() string {
	switch {
	case errors.Is(r.rollErr, elector.ErrDenied):
		return "not known: this Redis user may not call the roll"
	case r.rollErr != nil:
		return "not known"
	case len(r.roll) == 0:
		return "none"
	}
	text, watching := "", r.observers()
	if watching < len(r.roll) {
		text = fmt.Sprintf("%d/%d able to lead", r.able(), len(r.roll)-watching)
	}
	switch {
	case watching == 0:
		return text
	case text == "":
		return fmt.Sprintf("only observers (%d)", watching)
	default:
		return fmt.Sprintf("%s; observers: %d", text, watching)
	}
}

// observers returns how many of the candidates that answered never campaign.
func (r *report) observers() int {
	n := 0
	for _, c := range r.roll {
		if c.Observes() {
			n++
		}
	}
	return n
}

// findings are what is worth knowing of the election, from all sources of the report.
func (r *report) findings() []doctor.Finding {
	now := doctor.Report{
		Status: r.Status, StatusErr: r.err, Candidates: r.roll, CandidatesErr: r.rollErr, Terms: r.terms,
		Unresponsive: r.unresponsive, Writes: r.writes,
	}
	if r.Leader != nil {
		now.LeaseLeft = r.leaseLeft(time.Now())
	}
	return now.Findings(r.flags.command)
}

// problem returns the most serious problem, and the command to type next. Both are empty if there
// is no problem.
func (r *report) problem() (why, next string) {
	switch {
	case r.group != nil && r.err == nil:
		return r.group.problem(r.flags)
	case r.group != nil:
		return elector.Problem(r.err), r.flags.command("doctor")
	case r.ofGroup:
		return "this is a group of shards, not an election", r.flags.command("shards", r.Election)
	}
	first, _ := doctor.First(r.findings())
	return first.Found, first.Advice
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
	if r.Leader == nil {
		return nil
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

// unreported is shown instead of the reason of a term whose leader is alive and has not reported
// the end of the term.
const unreported = "end not reported"

func (r *report) lastEnd() string {
	t := r.last
	text := t.Candidate + ": " + cmp.Or(string(t.Reason), unreported)
	switch {
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

// unknownElection reports whether neither the nodes nor a candidate knows the election.
func (r *report) unknownElection() bool { return traceless(r.Status) && len(r.roll) == 0 }

// reportMore are the JSON keys of a report other than those of the status.
type reportMore struct {
	State         string              `json:"state"`
	Candidates    *int                `json:"candidates"` // null: not known
	Able          *int                `json:"able"`
	NodesWritable *int                `json:"nodes_writable,omitempty"` // left out: not tried
	LastEnd       *elector.TermRecord `json:"last_end"`
	Problem       string              `json:"problem,omitempty"`
	Next          string              `json:"next,omitempty"`

	Roll []elector.CandidateStatus `json:"roll,omitempty"`
}

// MarshalJSON returns the JSON object of the status with the keys of reportMore added.
func (r report) MarshalJSON() ([]byte, error) {
	more := reportMore{State: r.state(), LastEnd: r.last, Roll: r.roll}
	if r.rollErr == nil {
		all, able := len(r.roll), r.able()
		more.Candidates, more.Able = &all, &able
	}
	more.NodesWritable = r.writable()
	more.Problem, more.Next = r.problem()
	st, err := json.Marshal(r.Status)
	if err != nil {
		return nil, err
	}
	rest, err := json.Marshal(more)
	if err != nil {
		return nil, err
	}
	return append(append(st[:len(st)-1], ','), rest[1:]...), nil
}

// writable returns how many nodes accept writes; nil: that is not known.
func (r *report) writable() *int {
	n := 0
	for _, f := range r.writes {
		if f.Level == doctor.LevelUnknown {
			return nil
		}
		if f.Level == doctor.LevelOK {
			n++
		}
	}
	if len(r.writes) == 0 {
		return nil
	}
	return &n
}

// These are the states of an election in ls and status.
const (
	stateLed       = "led"
	statePaused    = "paused"    // no leader, and none will be elected
	stateVacant    = "vacant"    // no leader, although one is expected
	stateAbandoned = "abandoned" // no candidate, and no leader for a day, or never
	stateNone      = "none"      // no leader; whether there are candidates is not known
	stateUnknown   = "unknown"   // no majority of the nodes answered
)
