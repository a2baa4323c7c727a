package console

import (
	"cmp"
	"time"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/vacancy"
	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/doctor"
)

// The states of an election in the table.
const (
	stateLed       = "led"
	stateVacant    = "vacant"    // no leader, and it is missed
	statePaused    = "paused"    // no leader, and an operator wants none
	stateAbandoned = "abandoned" // no leader and no candidate for a day
	stateNone      = "none"      // no leader; whether there are candidates is not known yet
	stateUnknown   = "unknown"   // nothing has been read yet
)

type (
	// row is an election in the table. Its lease is coarse, and times are instants:
	// so an election in which nothing happens is not sent again.
	row struct {
		Election string `json:"election"`
		State    string `json:"state"`
		Problem  string `json:"problem,omitempty"` // what is wrong although there may be a leader
		Leader   string `json:"leader,omitempty"`
		Token    uint64 `json:"token,omitempty"`
		Lease    int    `json:"lease"` // tenths that are left of it
		Paused   bool   `json:"paused,omitempty"`
		Older    bool   `json:"older,omitempty"` // an operator lets versions lead that are older than one that has led
		Able     int    `json:"able"`            // candidates that lead or could be elected
		Of       int    `json:"of"`              // candidates; -1: not known
		Degraded bool   `json:"degraded,omitempty"`
		AsOfMS   int64  `json:"as_of,omitempty"` // it has not been read since
		Error    string `json:"error,omitempty"` // why
	}

	// past is what the table shows of the terms.
	past struct {
		Election string   `json:"election"`
		Reason   string   `json:"reason,omitempty"` // of the last end
		Detail   string   `json:"detail,omitempty"`
		Until    int64    `json:"until,omitempty"`
		Bad      bool     `json:"bad,omitempty"` // it was not intended
		IDs      []string `json:"ids"`
		// Terms are the latest, newest first: from, until (0: it lasts), index of the
		// candidate, 1 if it ended badly.
		Terms [][4]int64 `json:"terms"`
	}
)

const (
	rowTerms  = 8
	rowDetail = 120 // bytes
)

// endOf is when a term had ended, at the latest; zero: not known. One that vanished had when
// the next one began.
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

// brief is what a row needs to know of the terms.
type brief struct {
	read     bool
	flapping bool
	never    bool // no term is known
}

func briefOf(records []elector.TermRecord, now time.Time) brief {
	flapping, _ := doctor.Flapping(records, rowTerms, now)
	return brief{read: true, never: len(records) == 0, flapping: flapping != ""}
}

// lastTerm is when the last term began and ended; the end is zero where its leader vanished,
// and both are where it lasts.
func lastTerm(records []elector.TermRecord) (began, ended time.Time) {
	if len(records) == 0 || records[0].Current {
		return began, ended
	}
	return records[0].From, records[0].Until
}

// count is what a row needs to know of the candidates.
type count struct {
	read         bool
	able, of     int    // of those that campaign
	answered     int    // observers among them
	leader       string // the incarnation that led when the roll was called
	unresponsive bool   // it did not answer
	degraded     bool   // a candidate could not take over, and that is no matter of seconds
}

func countOf(all []elector.CandidateStatus, leader string) count {
	n := count{read: true, answered: len(all), leader: leader, unresponsive: leader != ""}
	unable, resting := 0, 0
	for _, c := range all {
		if c.Role != elector.RoleObserving { // it never campaigns
			n.of++
			if !c.Healthy && c.Outdated == "" { // older ones are there in every deploy
				unable++
			} else if c.RestFor > 0 { // after each step-down
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

// rowOf is the row of an election of which all has been read that is known.
func rowOf(election string, st elector.Status, lease time.Duration, n count, b brief, sight vacancy.Sight, now time.Time) row {
	r := row{Election: election, Paused: st.Paused, Older: st.AllowOlder != "", Able: n.able, Of: n.of, Degraded: n.degraded}
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
