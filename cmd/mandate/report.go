package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/doctor"
)

// report is what status, ls and the console show of an election, or of a group of shards.
type report struct {
	doctor.Report

	flags  nextFlags
	group  *groupReport // not nil: this report is one row for all shards of a group
	hidden string       // a problem that is shown above all rows
}

// These are the states of an election in ls and status.
const (
	stateLed       = "led"
	statePaused    = "paused"    // no leader, and none will be elected
	stateVacant    = "vacant"    // no leader, although one is expected
	stateAbandoned = "abandoned" // no candidate, and no leader for a day, or never
	stateFinished  = "finished"  // its work has ended well, and there is no candidate
	stateNone      = "none"      // no leader; whether there are candidates is not known
	stateUnknown   = "unknown"   // no majority of the nodes answered
)

func (r *report) state() string {
	switch {
	case r.StatusErr == nil && r.group != nil:
		return r.group.state()
	case !r.leaderKnown():
		return stateUnknown
	case r.Leader != nil:
		return stateLed
	case r.Paused:
		return statePaused
	case r.CandidatesErr != nil:
		return stateNone
	case r.Finished():
		return stateFinished
	case len(r.Candidates) == 0 && r.longGone():
		return stateAbandoned
	default:
		return stateVacant
	}
}

// leaderKnown reports whether the nodes that answered show who leads, or that nobody does.
func (r *report) leaderKnown() bool {
	return r.StatusErr == nil && majorityAnswered(r.Status) && r.MayLead == nil
}

// missed is for how long an election with neither a leader nor candidates counts as an outage. After
// that it seems to be unused.
const missed = 24 * time.Hour

// longGone reports whether the last term ended so long ago that an election without candidates counts
// as abandoned. A term whose end was never reported may have lasted until a moment ago.
func (r *report) longGone() bool {
	if r.TermsErr != nil || len(r.Terms) == 0 {
		return r.TermsErr == nil
	}
	return !r.Terms[0].Until.IsZero() && time.Since(r.Terms[0].Until) > missed
}

// count returns how many candidates lead or could be elected now, how many there are, and how many
// others only observe.
func (r *report) count() (able, all, observers int) {
	observers = howMany(r.Candidates, elector.CandidateStatus.Observes)
	able = howMany(r.Candidates, func(c elector.CandidateStatus) bool { return c.Able() && !c.Observes() })
	return able, len(r.Candidates) - observers, observers
}

// howMany returns how many of all are so.
func howMany[T any](all []T, so func(T) bool) (n int) {
	for _, one := range all {
		if so(one) {
			n++
		}
	}
	return n
}

// ableOf returns how many of the candidates lead or could be elected, for a table.
func (r *report) ableOf() string {
	if r.CandidatesErr != nil {
		return "?"
	}
	able, all, _ := r.count()
	return fmt.Sprintf("%d/%d", able, all)
}

// lastEnd returns the newest term that has ended, or nil.
func (r *report) lastEnd() *elector.TermRecord {
	i := slices.IndexFunc(r.Terms, func(t elector.TermRecord) bool { return !t.Current && t.Reason != "" })
	if i < 0 {
		return nil
	}
	return &r.Terms[i]
}

// problems returns what is wrong with an election, with the command to type next, the most serious first.
func (r *report) problems() []doctor.Finding {
	return slices.DeleteFunc(doctor.Problems(r.Findings(r.flags.command)), func(f doctor.Finding) bool { return f.Found == r.hidden })
}

// problem returns the most serious problem, and the command to type next; both are empty if nothing
// is wrong.
func (r *report) problem() (why, next string) {
	switch {
	case r.group != nil && r.StatusErr != nil:
		return r.StatusErr.Error(), r.flags.command("doctor")
	case r.group != nil:
		return r.group.problem(r.flags)
	}
	first := append(r.problems(), doctor.Finding{})[0]
	return first.Found, first.Advice
}

// reportMore are the JSON keys of a report other than those of the status.
type reportMore struct {
	State         string              `json:"state"`                    // led, vacant, paused (and no leader), abandoned (no candidates, and no leader for a day, or never), finished (no candidates, and the work has ended well), none (no leader, candidates not known) or unknown
	Candidates    *int                `json:"candidates"`               // how many answered; null: not known
	Able          *int                `json:"able"`                     // how many of them lead or could be elected; null: not known
	NodesWritable *int                `json:"nodes_writable,omitempty"` // how many accept writes; in status and ls only, if this Redis user may write
	LastEnd       *elector.TermRecord `json:"last_end"`                 // the newest ended term; null: none, or not known
	Problem       string              `json:"problem,omitempty"`        // the most serious finding
	Next          string              `json:"next,omitempty"`           // what to type next

	Roll []elector.CandidateStatus `json:"roll,omitempty"` // the candidates that answered, the leader first
}

// MarshalJSON returns the JSON object of the status with the keys of reportMore added.
func (r report) MarshalJSON() ([]byte, error) {
	more := reportMore{State: r.state(), LastEnd: r.lastEnd(), Roll: r.Candidates}
	if r.CandidatesErr == nil {
		able, _, _ := r.count()
		more.Candidates, more.Able = new(len(r.Candidates)), &able
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
	known := howMany(r.Writes, func(f doctor.Finding) bool { return f.Level != doctor.LevelUnknown })
	if known == 0 || known < len(r.Writes) {
		return nil
	}
	return new(howMany(r.Writes, func(f doctor.Finding) bool { return f.Level == doctor.LevelOK }))
}

// noTrace is the error for an election that neither the nodes nor a candidate know.
const noTrace = "no trace of it on these nodes: is the name right?"

// majorityAnswered reports whether a majority of the nodes was read, so that the leader is known.
func majorityAnswered(st elector.Status) bool {
	return 2*howMany(st.Nodes, func(n elector.NodeStatus) bool { return n.Reachable }) > len(st.Nodes)
}

// traceless reports whether a majority answered and no node knows of a leader, now or before, or of
// a candidate that has just started. If no candidate answers either, the name is probably wrong.
func traceless(st elector.Status) bool {
	return majorityAnswered(st) && !st.Traced()
}

// unknownElection reports whether an election is traceless and no candidate answers. Candidates
// that have never been able to lead leave no trace on the nodes, but do answer.
func unknownElection(ctx context.Context, el *elector.Election, st elector.Status) bool {
	if !traceless(st) {
		return false
	}
	roll, _ := el.Candidates(ctx) // without a roll the nodes alone decide
	return len(roll) == 0
}

// pausedBy describes who paused an election, since when and why.
func pausedBy(st elector.Status) string {
	if st.PauseSince.IsZero() {
		return st.Pause
	}
	return "since " + st.PauseSince.Local().Format(dateTimeZone) + ", " + st.Pause
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

// statusTimeout keeps status below two seconds, however Redis behaves.
const statusTimeout = 1700 * time.Millisecond
