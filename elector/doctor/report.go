package doctor

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/module"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// Report is a look at an election, with what it takes to judge it.
type Report struct {
	elector.Look

	Unresponsive bool  // the leader seems to hang or to be dead
	Ticks        []Job // of the jobs that the look has found
	TicksErr     error
	Writes       []Finding // of [Writable]; nil: not tried

	user string // the Redis user who looked
}

// RecentTerms is how many of the newest terms it takes to see that an election is flapping.
const RecentTerms = 20

// Read reads an election: its status, its candidates, so many of its newest terms, at least one, and its ticks. It takes one look,
// and then reads the marks of the jobs that this shows. It blocks for at most 3.3 s, and 1.5 s more where there are jobs, or
// until ctx ends. What could not be read has its error in the Report.
//
// If the leader is missing from the roll, the status is read once more: the leader is Unresponsive
// when it has then neither renewed its lease nor been replaced. It may also be alive, and not receive
// roll calls.
func Read(ctx context.Context, el *elector.Election, terms int) (r Report) {
	r.Look = el.Look(ctx, max(1, terms))
	r.user = userOf(el.Nodes(module.Only{}))
	r.readTicks(ctx, el)
	if r.CandidatesErr == nil && len(r.Candidates)+len(r.Others) == 0 {
		r.CandidatesErr = ctx.Err() // time was up
	}
	if r.StatusErr == nil && r.CandidatesErr == nil && r.Leader != nil && ctx.Err() == nil {
		r.checkLeader(ctx, el)
	}
	return r
}

// LeaseLeft returns what is left of the leader's lease now; 0 if there is no leader.
func (r *Report) LeaseLeft() time.Duration {
	if r.Leader == nil {
		return 0
	}
	return max(0, r.Leader.LeaseLeft-time.Since(r.At))
}

// Unprobed reports whether the leader has answered the roll call, and has no probe that would notice
// that its work hangs.
func (r *Report) Unprobed() bool {
	return r.Leader != nil && slices.ContainsFunc(r.Candidates, func(c elector.CandidateStatus) bool {
		return c.Leads() && c.Incarnation == r.Leader.Incarnation && len(c.Probes) == 0
	})
}

// Finished reports whether the last work has ended well, no candidate is left, and nothing is in the way of a next one: as
// between the runs of mandate run --once, or after a crash of all candidates of which the last had nothing to do.
func (r *Report) Finished() bool {
	return r.Leader == nil && r.Blocked == "" && len(r.Others) == 0 && r.CandidatesErr == nil && len(r.Candidates) == 0 && len(r.Terms) > 0 && r.Terms[0].Reason == elector.ReasonFinished
}

// abandoned is after how long without a leader an election that has no candidate counts as no longer used.
const abandoned = 24 * time.Hour

// Abandoned reports whether an election seems to be no longer used: there is no candidate, and no leader for a day, or never.
// A leader that vanished may have led until a moment ago.
func (r *Report) Abandoned() bool {
	if r.StatusErr != nil || r.Leader != nil || r.MayLead != nil || len(r.Candidates)+len(r.Others) > 0 || r.CandidatesErr != nil || r.TermsErr != nil {
		return false
	}
	return len(r.Terms) == 0 || !r.Vacant().IsZero() && time.Since(r.Vacant()) > abandoned
}

// Vacant returns since when there has been no leader, as the last one has reported; zero: there is one, or the last one
// vanished.
func (r *Report) Vacant() time.Time {
	if r.Leader != nil || r.MayLead != nil || len(r.Terms) == 0 {
		return time.Time{}
	}
	return r.Terms[0].Until
}

// checkLeader finds out whether the leader is unresponsive. A lease that has ended while the
// candidates were queried was probably renewed meanwhile.
func (r *Report) checkLeader(ctx context.Context, el *elector.Election) {
	before := *r.Leader
	before.LeaseLeft = r.LeaseLeft()
	answered := answers(before, r.Candidates)
	if answered && before.LeaseLeft > 0 {
		return
	}
	begin := time.Now()
	ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	st, err := el.Status(ctx)
	if err != nil {
		return
	}
	if r.Unresponsive = !answered && stuck(before, st.Leader, time.Since(begin)); !r.Unresponsive {
		r.Status, r.At = st, time.Now()
	}
}

// answers reports whether a leader has answered the roll call. A leader without an incarnation can't
// be looked up, so it counts as if it had.
func answers(leader elector.Leader, roll []elector.CandidateStatus) bool {
	return leader.Incarnation == "" || slices.ContainsFunc(roll, func(c elector.CandidateStatus) bool {
		return c.Incarnation == leader.Incarnation || c.Incarnation == "" && c.ID == leader.Candidate
	})
}

// stuck reports whether a leader's term is still the current one and was not renewed, or has ended
// meanwhile because its lease expired. If the lock is gone earlier than that, the leader has
// released it.
func stuck(before elector.Leader, now *elector.Leader, elapsed time.Duration) bool {
	if now == nil {
		return before.LeaseLeft <= elapsed
	}
	return now.Incarnation == before.Incarnation && now.Token == before.Token && now.LeaseLeft < before.LeaseLeft
}

// Findings judges a report without any I/O, the most serious findings first. They are those of Examine
// that need no look at the nodes themselves. command is that of a Config; nil: its default.
func (r *Report) Findings(command func(verb string, args ...string) string) []Finding {
	e := newExamination(protocol.Keys{}, 0, command)
	e.reachable(r)
	e.sameServer(r)
	e.election(r)
	e.user = cmp.Or(r.user, e.user)
	return e.finish()
}
