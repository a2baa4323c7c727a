package exporter

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// statusWithin is more than a Status takes beside a node that hangs.
const statusWithin = 2 * time.Second

// reading is what was read of one election.
type reading struct {
	name       string
	status     elector.Status
	err        error     // of the status: nothing is known then
	began      time.Time // the last term
	ended      time.Time // that term; zero: not known, its leader vanished perhaps
	never      bool      // the history has no term
	leaderless float64   // for how many seconds; +Inf: no leader was ever seen
	called     bool      // the roll
	roll       []elector.CandidateStatus
	rollErr    error
}

// readFrom reads the status, and starts the roll call: its candidates may never answer, which must
// not keep other elections waiting.
func (r *reading) readFrom(ctx context.Context, q *elector.Quorum, mayCall bool, rolls *sync.WaitGroup) {
	el, err := q.Election(r.name)
	if err != nil {
		r.err, r.rollErr = err, err
		return
	}
	if r.rollErr = elector.ErrDenied; mayCall {
		r.called = true
		rolls.Go(func() { r.call(ctx, el) })
	}
	bounded, cancel := context.WithTimeout(ctx, statusWithin)
	defer cancel()
	if r.status, r.err = el.Status(bounded); r.err == nil && r.status.Leader == nil {
		terms, err := el.History(bounded, 1)
		r.never = err == nil && len(terms) == 0
		if len(terms) == 1 && !terms[0].Current {
			r.began, r.ended = terms[0].From, terms[0].Until
		}
	}
}

// call calls the roll. One that was cut off shows nothing of those that are missing.
func (r *reading) call(ctx context.Context, el *elector.Election) {
	if r.roll, r.rollErr = el.Candidates(ctx); r.rollErr == nil {
		r.rollErr = ctx.Err()
	}
}

// missing reports whether time was up before all was read, or a node was not reached.
func (r *reading) missing() bool {
	return r.err != nil || r.rollErr != nil && !errors.Is(r.rollErr, elector.ErrDenied)
}
