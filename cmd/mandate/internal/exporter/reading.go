package exporter

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// statusWithin is longer than a Status takes when a node hangs.
const statusWithin = 2 * time.Second

// reading is what was read of one election.
type reading struct {
	name       string
	status     elector.Status
	err        error     // of the status; if set, nothing is known
	began      time.Time // when the last term began
	ended      time.Time // when it ended; zero: unknown, perhaps because its leader vanished
	never      bool      // the history has no term
	leaderless float64   // seconds without a leader; +Inf: none was ever seen
	called     bool      // the roll was called
	roll       []elector.CandidateStatus
	rollErr    error
}

// readFrom reads the status, and starts the roll call without waiting for it: candidates may never
// answer, which must not delay the other elections.
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

// call calls the roll. A roll that was cut off is an error, because candidates may be missing from
// it.
func (r *reading) call(ctx context.Context, el *elector.Election) {
	if r.roll, r.rollErr = el.Candidates(ctx); r.rollErr == nil {
		r.rollErr = ctx.Err()
	}
}

// missing reports whether something could not be read, because time was up or a node was not
// reached.
func (r *reading) missing() bool {
	return r.err != nil || r.rollErr != nil && !errors.Is(r.rollErr, elector.ErrDenied)
}
