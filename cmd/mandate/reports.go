package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector"
)

// parallelReads is how many elections are read concurrently: enough to hide the round trips, and
// few enough not to disturb other users of the Redis nodes.
const parallelReads = 16

// reports reads all elections. The error is that of the first election for which no majority
// answered, or else another one about what could not be read.
func reports(ctx context.Context, q *elector.Quorum, names []string) ([]report, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	rest, done := context.WithTimeout(ctx, restWithin)
	defer done()
	all := make([]report, len(names))
	next := make(chan int)
	var wg, rolls sync.WaitGroup
	for range min(parallelReads, len(names)) {
		wg.Go(func() {
			for i := range next {
				r := &all[i]
				el, err := q.Election(names[i])
				if err == nil {
					r.readStatus(ctx, el)
					err = r.err
				}
				if r.Election, r.err, r.rollErr = names[i], err, err; err != nil {
					var answer redis.Error
					if errors.Is(err, elector.ErrUnreachable) && !errors.As(err, &answer) {
						cancel(err) // reading the other elections would fail in the same way
					}
					continue
				}
				terms := r.readTerms(rest, el)
				// A candidate that does not answer must not delay the other elections.
				rolls.Go(func() { r.readRoll(rest, el, terms) })
			}
		})
	}
	for i := range names {
		next <- i
	}
	close(next)
	wg.Wait()
	rolls.Wait()
	err := context.Cause(ctx)
	for i := range all { // errors of single elections: an invalid name, or keys that another program wrote
		err = cmp.Or(err, all[i].err)
	}
	return all, cmp.Or(err, missingRolls(all))
}

// restWithin bounds the time for reading everything but the status of all elections: a node that
// hangs delays each roll call.
const restWithin = 5 * time.Second

// fewTerms are enough to detect flapping, and few enough for a list of all elections.
const fewTerms = 10

func (r *report) readTerms(ctx context.Context, el *elector.Election) []elector.TermRecord {
	terms, err := el.History(ctx, fewTerms)
	r.unread, r.unused = err != nil, err == nil && longGone(terms, time.Now())
	return terms
}

// readRoll calls the roll, and evaluates it together with the last terms.
func (r *report) readRoll(ctx context.Context, el *elector.Election, terms []elector.TermRecord) {
	r.roll, r.rollErr = el.Candidates(ctx)
	r.rollErr = cmp.Or(r.rollErr, ctx.Err()) // candidates may be missing in a roll that was cut off
	r.evaluateTerms(terms, time.Now())
	r.checkLeader(ctx, el)
}

// missingRolls returns an error if the candidates of some elections are unknown, usually because
// time was up. It returns nil if all are known, or if this Redis user may not call the roll.
func missingRolls(all []report) error {
	var first *report
	missing := 0
	for i := range all {
		if r := &all[i]; r.err == nil && r.rollErr != nil && !errors.Is(r.rollErr, elector.ErrDenied) {
			missing++
			first = cmp.Or(first, r)
		}
	}
	if missing == 0 {
		return nil
	}
	why := elector.Problem(first.rollErr)
	if errors.Is(first.rollErr, context.DeadlineExceeded) {
		why = "they did not all answer within " + restWithin.String()
	}
	return fmt.Errorf("the candidates of %d of %d elections are not known, such as %s: %s", missing, len(all), first.Election, why)
}
