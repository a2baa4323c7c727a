package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/doctor"
	"github.com/mandate-dev/mandate/elector/shard"
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
	case r.Abandoned():
		return stateAbandoned
	default:
		return stateVacant
	}
}

// leaderKnown reports whether the nodes that answered show who leads, or that nobody does.
func (r *report) leaderKnown() bool {
	return r.StatusErr == nil && majorityAnswered(r.Status) && r.MayLead == nil
}

// able returns how many candidates lead or could be elected now.
func (r *report) able() int { return howMany(r.Candidates, elector.CandidateStatus.Able) }

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
	return fmt.Sprintf("%d/%d", r.able(), len(r.Candidates))
}

// lastEnd returns the newest term that has ended, or nil.
func (r *report) lastEnd() *elector.TermRecord {
	i := slices.IndexFunc(r.Terms, func(t elector.TermRecord) bool { return !t.Current && t.Reason != "" })
	if i < 0 {
		return nil
	}
	return &r.Terms[i]
}

// problems returns what is wrong with an election or a group, with the command to type next, the most serious first.
func (r *report) problems() []doctor.Finding {
	all := r.Findings(r.flags.command)
	if r.group != nil {
		all = r.groupFindings()
	}
	return slices.DeleteFunc(doctor.Problems(all), func(f doctor.Finding) bool { return f.Found == r.hidden })
}

// problem returns the most serious problem; one without a level: there is none.
func (r *report) problem() doctor.Finding { return append(r.problems(), doctor.Finding{})[0] }

// reportMore are the JSON keys of a report other than those of the status.
type reportMore struct {
	State         string              `json:"state"`                    // led, vacant, paused (and no leader), abandoned (no candidates, and no leader for a day, or never), finished (no candidates, and the work has ended well), none (no leader, candidates not known) or unknown
	Candidates    *int                `json:"candidates"`               // how many answered; null: not known
	Able          *int                `json:"able"`                     // how many of them lead or could be elected; null: not known
	NodesWritable *int                `json:"nodes_writable,omitempty"` // how many accept writes; in status and ls only, if this Redis user may write
	LastEnd       *elector.TermRecord `json:"last_end"`                 // the newest ended term; null: none, or not known
	Level         doctor.Level        `json:"level,omitempty"`          // of the problem: warn or fail
	Problem       string              `json:"problem,omitempty"`        // the most serious finding
	Since         time.Time           `json:"problem_since,omitzero"`   // since when it has been so, where that is known
	Next          string              `json:"next,omitempty"`           // what to type next

	Roll []elector.CandidateStatus `json:"roll,omitempty"` // the candidates that answered, the leader first
}

// MarshalJSON returns the JSON object of the status with the keys of reportMore added.
func (r report) MarshalJSON() ([]byte, error) {
	more := reportMore{State: r.state(), LastEnd: r.lastEnd(), Roll: r.Candidates}
	if r.CandidatesErr == nil {
		more.Candidates, more.Able = new(len(r.Candidates)), new(r.able())
	}
	more.NodesWritable = r.writable()
	p := r.problem()
	more.Level, more.Problem, more.Since, more.Next = p.Level, p.Found, p.Since, p.Advice
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

// allShards follows the name of a group in that of its row: a pattern for ls that matches its elections.
const allShards = "#*"

// electionRows returns a row for each election, before it is read.
func electionRows(names []string) []report {
	rows := make([]report, len(names))
	for i, name := range names {
		rows[i].Election = name
	}
	return rows
}

// foldedRows returns a row for each election, before it is read. The shards of a group are one row; those of
// the groups come first.
func foldedRows(names []string) (rows []report) {
	others, groups := shard.Split(names)
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		rows = append(rows, groupRow(name, groups[name]))
	}
	return append(rows, electionRows(others)...)
}

// groupRow returns the row of a group, of which these shards have an election, before it is read.
func groupRow(name string, listed shard.Set) (r report) {
	r.Election = name + allShards
	r.group = &groupReport{Status: shard.Status{Group: name}, listed: listed}
	return r
}

// parallelReads is how many elections or groups are read concurrently: enough that candidates that do not
// answer delay few others, and few enough not to disturb other users of the Redis nodes.
const parallelReads = 128

// readWithin bounds the time for reading all elections.
const readWithin = 10 * time.Second

// readAll reads all rows, with so many terms of each election. The error is that of the first one for which no
// majority answered, or else another one about what could not be read.
func readAll(ctx context.Context, q *elector.Quorum, rows []report, terms int) error {
	ctx, done := context.WithTimeout(ctx, readWithin)
	defer done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var unreached atomic.Int32
	var reading sync.WaitGroup
	turns := make(chan struct{}, parallelReads)
	for i := range rows {
		turns <- struct{}{}
		reading.Go(func() {
			defer func() { <-turns }()
			r := &rows[i]
			r.read(ctx, q, terms)
			if errors.Is(r.StatusErr, elector.ErrUnreachable) && !errors.As(r.StatusErr, new(redis.Error)) && unreached.Add(1) > 3 {
				cancel(r.StatusErr) // reading the others would fail in the same way
			}
		})
	}
	reading.Wait()
	err := context.Cause(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = nil // see missingRolls
	}
	for i := range rows { // errors of single elections: an invalid name, or keys that another program wrote
		err = cmp.Or(err, rows[i].StatusErr)
	}
	return cmp.Or(err, missingRolls(rows))
}

// read reads a row, also one that was read before.
func (r *report) read(ctx context.Context, q *elector.Quorum, terms int) {
	if r.group != nil {
		r.readGroup(ctx, q)
		return
	}
	name := r.Election
	el, err := q.Election(name)
	if err == nil {
		r.Report = doctor.Read(ctx, el, terms)
		r.CandidatesErr = cmp.Or(r.CandidatesErr, ctx.Err()) // candidates may be missing in a roll that was cut off
		err = r.StatusErr
	}
	r.Election, r.StatusErr = name, err
}

func (r *report) readGroup(ctx context.Context, q *elector.Quorum) {
	g, name := r.group, r.group.Group
	st, err := shard.Read(ctx, q, name)
	r.Report = doctor.Report{Look: elector.Look{Status: elector.Status{Election: r.Election}}}
	if g.gone, g.missed = errors.Is(err, shard.ErrNoGroup), false; g.gone {
		st.Shards = len(g.listed)
		for _, n := range g.listed {
			st.Unowned = append(st.Unowned, shard.Vacancy{Shard: n})
		}
		var el *elector.Election
		if el, err = q.Election(shard.ElectionOfAssigner(name)); err == nil {
			r.Terms, r.TermsErr = el.History(ctx, 1)
			g.missed = !r.Abandoned()
		}
	}
	st.Group = name
	g.Status, r.StatusErr = st, err
}

// whileRead tries whether the nodes take writes, with the keys of that election, while read reads: full ones answer
// every read.
func whileRead(ctx context.Context, q *elector.Quorum, election string, read func()) (writes []doctor.Finding) {
	var trying sync.WaitGroup
	trying.Go(func() { writes, _ = doctor.Writable(ctx, q, election) }) // the only error is that of an invalid name
	read()
	trying.Wait()
	return writes
}

// missingRolls returns an error if the candidates of some elections are unknown, usually because
// time was up. It returns nil if all are known, or if this Redis user may not call the roll.
func missingRolls(all []report) error {
	missing := slices.DeleteFunc(slices.Clone(all), func(r report) bool {
		return r.StatusErr != nil || r.CandidatesErr == nil || errors.Is(r.CandidatesErr, elector.ErrDenied)
	})
	if len(missing) == 0 {
		return nil
	}
	why := missing[0].CandidatesErr.Error()
	if errors.Is(missing[0].CandidatesErr, context.DeadlineExceeded) {
		why = "they did not all answer within " + readWithin.String()
	}
	return fmt.Errorf("the candidates of %d of %d elections are not known, such as %s: %s", len(missing), len(all), missing[0].Election, why)
}

// nodeProblem returns what is wrong with the nodes, if several elections show it, and leaves it out of their rows.
func nodeProblem(all []report) (fields []output.Field) {
	seen := map[string]int{}
	for i := range all {
		if all[i].group != nil {
			continue
		}
		for _, f := range all[i].problems() {
			if seen[f.Found]++; (f.Check == "majority" || f.Check == "same-server") && seen[f.Found] == 2 && len(fields) == 0 {
				fields = []output.Field{{Name: "problem", Text: f.Found, Color: output.Red}, {Name: "next", Text: f.Advice, Color: output.Yellow}}
			}
		}
	}
	if len(fields) > 0 {
		for i := range all {
			all[i].hidden = fields[0].Text
		}
	}
	return fields
}
