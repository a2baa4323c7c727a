package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/cmd/mandate/internal/vacancy"
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
	last         *elector.TermRecord       // the newest term that has ended
	unread       bool                      // the terms could not be read
	flaps        string                    // see doctor.Flapping
	flapped      *elector.TermRecord       // the newest term that ended for the most frequent reason
	unused       bool                      // without candidates the election counts as abandoned, see vacancy.Abandoned
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
	r.evaluateTerms(terms, doctor.RecentTerms, time.Now())
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

// evaluateTerms evaluates the newest n terms. The roll must have been read before.
func (r *report) evaluateTerms(terms []elector.TermRecord, n int, now time.Time) {
	ended := slices.IndexFunc(terms, func(t elector.TermRecord) bool { return !t.Current && t.Reason != "" })
	terms = doctor.Unreported(terms, r.roll, now)
	if ended >= 0 {
		r.last = &terms[ended]
	}
	var most elector.Reason
	r.flaps, most = doctor.Flapping(terms, n, now)
	if i := slices.IndexFunc(terms, func(t elector.TermRecord) bool { return !t.Current && t.Reason == most }); r.flaps != "" && i >= 0 {
		r.flapped = &terms[i]
	}
}

// longGone reports whether an election that has no leader counts as abandoned, judging by its
// terms.
func longGone(terms []elector.TermRecord, now time.Time) bool {
	var s vacancy.Sight
	s.Look(false, now)
	if len(terms) > 0 && !terms[0].Current {
		s.Recorded(terms[0].From, terms[0].Until, now)
	}
	return s.Abandoned(len(terms) == 0, now)
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
		if c.Role == elector.RoleObserving {
			n++
		}
	}
	return n
}

// nodes counts the nodes that answer and accept writes, and those that refuse writes, as far as is
// known.
func (r *report) nodes() (good, refuse int) {
	for _, n := range r.Nodes {
		switch f := writeOf(r.writes, n.Node); {
		case n.Reachable && f.Level == doctor.LevelFail:
			refuse++
		case n.Reachable && n.Foreign == "":
			good++
		}
	}
	return good, refuse
}

func writeOf(writes []doctor.Finding, node string) doctor.Finding {
	if i := slices.IndexFunc(writes, func(f doctor.Finding) bool { return f.Node == node }); i >= 0 {
		return writes[i]
	}
	return doctor.Finding{}
}

func (r *report) redisText() (string, output.Color) {
	good, refuse := r.nodes()
	text, color := fmt.Sprintf("%d/%d nodes", good, len(r.Nodes)), output.Plain
	if refuse > 0 {
		text += fmt.Sprintf(", %d refuse writes", refuse)
	}
	refusals := len(doctor.Refusals(r.roll))
	if refusals > 0 {
		text += fmt.Sprintf(", %d %s candidates", refusals, verb(refusals, "refuses", "refuse"))
	}
	if slices.ContainsFunc(r.writes, func(f doctor.Finding) bool {
		return f.Level == doctor.LevelUnknown && writeOf(r.writes, f.Node).Found == mayNotWrite
	}) {
		text += "; whether they accept writes is not known: this Redis user may not write"
	}
	if good < len(r.Nodes) || refusals > 0 {
		color = output.Yellow
	}
	if 2*good <= len(r.Nodes) {
		color = output.Red
	}
	return text, color
}

// verb returns the form of a verb that agrees with the number n.
func verb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

const mayNotWrite = "this Redis user may not write"

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
	return text + detailOf(t)
}

// detailOf returns why a term ended, in parentheses; empty if that is unknown.
func detailOf(t *elector.TermRecord) string {
	if t == nil || t.Detail == "" {
		return ""
	}
	return " (" + t.Detail + ")"
}

// setOrigin records in a report how the command line chose the election.
func (a *app) setOrigin(r *report) { r.flags = a.given }

// unknownElection reports whether neither the nodes nor a candidate knows the election.
func (r *report) unknownElection() bool { return traceless(r.Status) && len(r.roll) == 0 }

// first reports whether the election has never had a leader.
func (r *report) first() bool {
	return !slices.ContainsFunc(r.Nodes, func(n elector.NodeStatus) bool { return n.Fence > 0 })
}
