package main

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector"
)

// parallelReads is how many elections are read at once: enough to hide the round
// trips, little enough for the Redis that others work with.
const parallelReads = 16

// reports reads all elections. The error is that of the first one for which no
// majority answered.
func reports(ctx context.Context, q *elector.Quorum, names []string) ([]report, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	rest, done := context.WithTimeout(ctx, restWithin)
	defer done()
	all := make([]report, len(names))
	next := make(chan int)
	calls := newRollCalls()
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
						cancel(err) // the others would run into the same
					}
					continue
				}
				terms := r.readTerms(rest, el)
				// A candidate that does not answer must not delay the other elections.
				rolls.Go(func() { r.readRoll(rest, el, terms, calls) })
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
	for i := range all { // a name that is none, or keys that another program wrote: of that election alone
		err = cmp.Or(err, all[i].err)
	}
	return all, cmp.Or(err, missingRolls(all))
}

// fewTerms are enough to see that leadership flaps, and few for a list of all elections.
const fewTerms = 10

func (r *report) readTerms(ctx context.Context, el *elector.Election) []elector.TermRecord {
	terms, err := el.History(ctx, fewTerms)
	r.unread, r.unused = err != nil, err == nil && longGone(terms, time.Now())
	return terms
}

// readRoll calls the roll, and makes of it and the last terms what a list shows.
func (r *report) readRoll(ctx context.Context, el *elector.Election, terms []elector.TermRecord, calls *rollCalls) {
	r.roll, r.rollErr = calls.call(ctx, el)
	r.recall(terms, fewTerms, time.Now())
	r.checkLeader(ctx, el)
}
