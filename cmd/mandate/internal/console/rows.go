package console

import (
	"cmp"
	"time"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/vacancy"
	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/doctor"
)

// These are the states of an election in the table.
const (
	stateLed       = "led"
	stateVacant    = "vacant"    // no leader, although one is expected
	statePaused    = "paused"    // no leader, and an operator has paused the election
	stateAbandoned = "abandoned" // no leader and no candidate for a day
	stateNone      = "none"      // no leader; whether there are candidates is unknown
	stateUnknown   = "unknown"   // nothing has been read yet
)

type (
	// row is an election in the table. Its lease is coarse, and its times are instants, so that an
	// election in which nothing happens is not sent again.
	row struct {
		Election string `json:"election"`
		State    string `json:"state"`
		Problem  string `json:"problem,omitempty"` // a problem, even if there is a leader
		Leader   string `json:"leader,omitempty"`
		Token    uint64 `json:"token,omitempty"`
		Lease    int    `json:"lease"` // remaining lease, in tenths
		Paused   bool   `json:"paused,omitempty"`
		Able     int    `json:"able"` // candidates that lead or could be elected
		Of       int    `json:"of"`   // candidates; -1: unknown
		Degraded bool   `json:"degraded,omitempty"`
		AsOfMS   int64  `json:"as_of,omitempty"` // when it was read last, if it could not be read since
		Error    string `json:"error,omitempty"` // why it could not be read
	}

	// past is what the table shows of the past terms.
	past struct {
		Election string   `json:"election"`
		Reason   string   `json:"reason,omitempty"` // of the last end
		Detail   string   `json:"detail,omitempty"`
		Until    int64    `json:"until,omitempty"`
		Bad      bool     `json:"bad,omitempty"` // the last end was not intended
		IDs      []string `json:"ids"`
		// Terms are the latest terms, newest first: from, until (0: it lasts), index in IDs, 1 if
		// it ended badly.
		Terms [][4]int64 `json:"terms"`
	}
)

const (
	rowTerms  = 8
	rowDetail = 120 // bytes
)

// endOf returns when a term had ended at the latest; zero: unknown. A term whose leader vanished
// had ended when the next term began.
func endOf(records []elector.TermRecord, i int) time.Time {
	if records[i].Until.IsZero() && i > 0 {
		return records[i-1].From
	}
	return records[i].Until
}

func pastOf(election string, records []elector.TermRecord) past {
	p := past{Election: election, IDs: []string{}, Terms: [][4]int64{}}
	index := map[string]int{}
	ended := false
	for i, r := range records[:min(rowTerms, len(records))] {
		if !r.Current && !ended {
			ended = true
			p.Reason, p.Detail, p.Bad = bounded(string(r.Reason)), cut(r.Detail, rowDetail), !r.Reason.Wanted() || len(r.Overlaps) > 0
			if at := endOf(records, i); !at.IsZero() {
				p.Until = at.UnixMilli()
			}
		}
		if r.From.IsZero() {
			continue
		}
		at, ok := index[r.Candidate]
		if !ok {
			at = len(p.IDs)
			index[r.Candidate] = at
			p.IDs = append(p.IDs, bounded(r.Candidate))
		}
		var until, bad int64
		if end := endOf(records, i); !r.Current && !end.IsZero() {
			until = end.UnixMilli()
		}
		if !r.Current && !r.Reason.Wanted() || len(r.Overlaps) > 0 {
			bad = 1
		}
		p.Terms = append(p.Terms, [4]int64{r.From.UnixMilli(), until, int64(at), bad})
	}
	return p
}

// brief summarizes the terms for a row.
type brief struct {
	read     bool
	flapping bool
	never    bool // no term is known
}

func briefOf(records []elector.TermRecord, now time.Time) brief {
	flapping, _ := doctor.Flapping(records, rowTerms, now)
	return brief{read: true, never: len(records) == 0, flapping: flapping != ""}
}

// lastTerm returns when the last term began and ended. The end is zero if its leader vanished, and
// both are zero if the term lasts.
func lastTerm(records []elector.TermRecord) (began, ended time.Time) {
	if len(records) == 0 || records[0].Current {
		return began, ended
	}
	return records[0].From, records[0].Until
}

// count summarizes the candidates for a row.
type count struct {
	read         bool
	able, of     int    // of the candidates that campaign
	answered     int    // how many answered, including observers
	leader       string // the incarnation that led when the roll was called
	unresponsive bool   // the leader did not answer
	degraded     bool   // a candidate could not take over, for longer than a rest after a step-down
}

func countOf(all []elector.CandidateStatus, leader string) count {
	n := count{read: true, answered: len(all), leader: leader, unresponsive: leader != ""}
	unable, resting := 0, 0
	for _, c := range all {
		if c.Role != elector.RoleObserving { // observers never campaign
			n.of++
			if !c.Healthy {
				unable++
			} else if c.RestFor > 0 { // candidates rest after each step-down
				resting++
			}
		}
		if c.Able() {
			n.able++
		}
		if c.Incarnation == leader {
			n.unresponsive = false
		}
	}
	n.degraded = unable > 0 || n.of > 1 && n.able+resting < 2
	return n
}

// rowOf returns the row of an election from everything that is known of it.
func rowOf(election string, st elector.Status, lease time.Duration, n count, b brief, sight vacancy.Sight, now time.Time) row {
	r := row{Election: election, Paused: st.Paused, Able: n.able, Of: n.of, Degraded: n.degraded}
	if !n.read {
		r.Able, r.Of = 0, -1
	}
	switch l := st.Leader; {
	case l != nil:
		r.State, r.Leader, r.Token = stateLed, bounded(l.Candidate), l.Token
		if lease > 0 {
			r.Lease = int(min(10, (10*l.LeaseLeft+lease-1)/lease))
		}
	case st.Paused:
		r.State = statePaused
	case !n.read:
		r.State = stateNone
	case n.answered == 0 && b.read && sight.Abandoned(b.never, now):
		r.State = stateAbandoned
	default:
		r.State = stateVacant
	}
	unresponsive := ""
	if st.Leader != nil && n.unresponsive && n.leader == st.Leader.Incarnation {
		unresponsive = "leader unresponsive"
	}
	flapping := ""
	if b.flapping {
		flapping = "flapping"
	}
	switch {
	case st.Conflict != "":
		r.Problem = "two may lead"
	case st.Blocked != "":
		r.Problem = "blocked"
	default:
		r.Problem = cmp.Or(unresponsive, flapping)
	}
	return r
}
