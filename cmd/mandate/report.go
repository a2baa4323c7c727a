package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/doctor"
)

// report is an election as an operator wants to see it at a glance: what its nodes, its
// candidates and its history know, and what is wrong.
type report struct {
	elector.Status

	context string                    // where it is; empty: no context was chosen
	flags   string                    // for the next command, see app.givenFlags
	err     error                     // of the status
	roll    []elector.CandidateStatus // those that answered
	rollErr error                     // the roll is not known
	silent  bool                      // the leader does not answer, see doctor.Silent
	writes  []doctor.Finding          // of each node; empty: not tried
	last    *elector.TermRecord       // the newest term that has ended
}

// examine makes a report; the parts are read at the same time, until ctx ends.
func examine(ctx context.Context, q *elector.Quorum, el *elector.Election, tryWrites bool) report {
	var r report
	var wg sync.WaitGroup
	wg.Go(func() { r.roll, r.rollErr = el.Candidates(ctx) })
	wg.Go(func() {
		if terms, err := el.History(ctx, 2); err == nil {
			r.last = lastEnded(terms)
		}
	})
	if tryWrites {
		wg.Go(func() { r.writes, _ = doctor.Writable(ctx, q, el.Name()) }) // an error is of the name, which has been checked
	}
	r.Status, r.err = el.Status(ctx)
	wg.Wait()
	if r.rollErr == nil && len(r.roll) == 0 && ctx.Err() != nil {
		r.rollErr = errors.New("no answer in time")
	}
	r.listen(ctx, el)
	return r
}

// listen looks for the leader among those that answered. Without a roll nobody is accused.
func (r *report) listen(ctx context.Context, el *elector.Election) {
	r.silent = r.err == nil && r.rollErr == nil && r.Leader != nil && doctor.Silent(ctx, el, *r.Leader, r.roll)
}

func lastEnded(terms []elector.TermRecord) *elector.TermRecord {
	if i := slices.IndexFunc(terms, func(t elector.TermRecord) bool { return !t.Current && t.Reason != "" }); i >= 0 {
		return &terms[i]
	}
	return nil
}

// The states of an election, as ls and status name them.
const (
	stateLed       = "led"
	statePaused    = "paused"    // no leader, and none will be elected
	stateVacant    = "vacant"    // candidates are there, and none leads
	stateAbandoned = "abandoned" // there is neither a leader nor a candidate
	stateNone      = "none"      // no leader; whether there are candidates is not known
	stateUnknown   = "unknown"   // no majority of the nodes answered
)

func (r *report) state() string {
	switch {
	case r.err != nil || !majorityAnswered(r.Status):
		return stateUnknown
	case r.Leader != nil:
		return stateLed
	case r.Paused:
		return statePaused
	case r.rollErr != nil:
		return stateNone
	case len(r.roll) == 0:
		return stateAbandoned
	default:
		return stateVacant
	}
}

// able is how many candidates lead or could be elected now.
func (r *report) able() int {
	n := 0
	for _, c := range r.roll {
		if c.Healthy && (c.Role == elector.RoleLeading || c.Role == elector.RoleFollowing) {
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
	default:
		return fmt.Sprintf("%d/%d able to lead", r.able(), len(r.roll))
	}
}

// nodes counts those that answer and accept writes, as far as is known.
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

// redisText is the nodes in a line.
func (r *report) redisText() (string, output.Color) {
	good, refuse := r.nodes()
	text, color := fmt.Sprintf("%d/%d nodes", good, len(r.Nodes)), output.Plain
	if refuse > 0 {
		text += fmt.Sprintf(", %d refuse writes", refuse)
	}
	if slices.ContainsFunc(r.writes, func(f doctor.Finding) bool {
		return f.Level == doctor.LevelUnknown && writeOf(r.writes, f.Node).Found == mayNotWrite
	}) {
		text += "; whether they accept writes is not known: this Redis user may not write"
	}
	if good < len(r.Nodes) {
		color = output.Yellow
	}
	if 2*good <= len(r.Nodes) {
		color = output.Red
	}
	return text, color
}

const mayNotWrite = "this Redis user may not write"

func endText(t *elector.TermRecord) string {
	text := t.Candidate + ": " + string(t.Reason)
	if !t.Until.IsZero() {
		text += ", " + output.Ago(t.Until)
	}
	if t.Detail != "" {
		text += " (" + t.Detail + ")"
	}
	return text
}

// problem is what is wrong, the worst first, and the command to type next. Both are empty
// when nothing is.
func (r *report) problem() (why, next string) {
	if why, next = r.worst(); next != "" {
		next += r.flags
	}
	return why, next
}

// worst is the problem to mend first.
func (r *report) worst() (why, next string) {
	name := shellName(r.Election)
	show := "mandate doctor " + name
	_, refuse := r.nodes()
	down := len(r.Nodes) - len(slices.DeleteFunc(slices.Clone(r.Nodes), func(n elector.NodeStatus) bool { return !n.Reachable }))
	refusing := slices.IndexFunc(r.writes, func(f doctor.Finding) bool { return f.Level == doctor.LevelFail })
	leading := 0
	for _, c := range r.roll {
		if c.Role == elector.RoleLeading {
			leading++
		}
	}
	switch {
	case r.err != nil:
		return "no majority of the Redis nodes could be read", show
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
		return fmt.Sprintf("%s: %d of %d nodes refuse writes (%s)", what, refuse, len(r.Nodes), r.writes[refusing].Found), show
	case r.Leader == nil:
		return r.vacant(name)
	case r.silent:
		return r.silence(), "mandate candidates " + name
	case down > 0:
		return fmt.Sprintf("%d of %d nodes are not available", down, len(r.Nodes)), show
	case refuse > 0:
		return fmt.Sprintf("%d of %d nodes refuse writes (%s)", refuse, len(r.Nodes), r.writes[refusing].Found), show
	case !sameNodes(r.roll):
		return "the candidates vote with different nodes, so two of them can lead", show
	case r.Paused:
		return "the election is paused: when " + r.Leader.Candidate + " stops, no other leader will be elected", "mandate resume " + name
	case r.rollErr == nil && r.able() < 2 && len(r.roll) > 1:
		return "no other candidate could take over" + r.firstUnable(), "mandate candidates " + name
	}
	return "", ""
}

// silence is what to expect of a leader that does not answer.
func (r *report) silence() string {
	end := "replaced in %s unless it renews"
	if r.Paused || r.able() == 0 {
		end = "its lease ends in %s unless it renews, and no candidate could replace it"
	}
	return fmt.Sprintf("the leader %s does not answer: it may hang or be dead; "+end, r.Leader.Candidate, output.Brief(r.Leader.LeaseLeft))
}

// unheardOf tells that neither the nodes nor a candidate knows the election.
func (r *report) unheardOf() bool { return traceless(r.Status) && len(r.roll) == 0 }

// first tells that the election has never had a leader.
func (r *report) first() bool {
	return !slices.ContainsFunc(r.Nodes, func(n elector.NodeStatus) bool { return n.Fence > 0 })
}

// vacant is why there is no leader.
func (r *report) vacant(name string) (why, next string) {
	abstain := time.Duration(0)
	for _, n := range r.Nodes {
		abstain = max(abstain, n.Abstains)
	}
	switch {
	case r.unheardOf():
		return "no trace of an election of this name", "mandate ls"
	case r.Paused:
		return "the election is paused (" + r.Pause + ")", "mandate resume " + name
	case r.rollErr != nil && abstain > 0 && r.first():
		return firstElection(abstain), "mandate wait " + name
	case r.rollErr != nil:
		return "no leader", "mandate candidates " + name
	case len(r.roll) == 0:
		return "no candidate answers: none is running, or they use other nodes or another prefix", "mandate history " + name
	case r.able() == 0:
		return "no candidate can lead" + r.firstUnable(), "mandate candidates " + name
	case abstain > 0 && r.first():
		return firstElection(abstain), "mandate wait " + name
	case abstain > 0:
		return "a node is new or lost its data, and does not vote for another " + output.Rounded(abstain), "mandate wait " + name
	default:
		return "candidates are there: an election may be under way", "mandate wait " + name
	}
}

// firstElection is no reason to worry, but a new node might remember no other leader.
func firstElection(abstain time.Duration) string {
	return "first election: nodes vote in " + output.Brief(abstain)
}

// firstUnable is what keeps one candidate from leading, as an example.
func (r *report) firstUnable() string {
	for _, c := range r.roll {
		if c.Role == elector.RoleLeading {
			continue
		}
		if c.RestFor > 0 {
			return fmt.Sprintf(" (%s rests for another %s)", c.ID, output.Brief(c.RestFor))
		}
		if !c.Healthy && c.Detail != "" {
			return fmt.Sprintf(" (%s: %s)", c.ID, c.Detail)
		}
		if c.Role != elector.RoleFollowing {
			return fmt.Sprintf(" (%s is %s)", c.ID, c.Role)
		}
	}
	return ""
}

// shellName is a name as it can be typed.
func shellName(name string) string {
	if strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:/@%+-") == "" && !strings.HasPrefix(name, "-") {
		return name
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}

// reportMore are the keys of a report beside those of the status.
type reportMore struct {
	Context       string              `json:"context,omitempty"`
	State         string              `json:"state"`
	Candidates    *int                `json:"candidates"` // null: not known
	Able          *int                `json:"able"`
	NodesWritable *int                `json:"nodes_writable,omitempty"` // left out: not tried
	LastEnd       *elector.TermRecord `json:"last_end"`
	Problem       string              `json:"problem,omitempty"`
	Next          string              `json:"next,omitempty"`
}

// MarshalJSON is the object of the status with more keys.
func (r report) MarshalJSON() ([]byte, error) {
	more := reportMore{Context: r.context, State: r.state(), LastEnd: r.last}
	if r.rollErr == nil {
		all, able := len(r.roll), r.able()
		more.Candidates, more.Able = &all, &able
	}
	if len(r.writes) > 0 && !slices.ContainsFunc(r.writes, func(f doctor.Finding) bool { return f.Found == mayNotWrite }) {
		good, _ := r.nodes()
		more.NodesWritable = &good
	}
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
