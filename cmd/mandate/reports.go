package main

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/elector"
)

// parallelReads is how many elections are read at once: enough to hide the round
// trips, little enough for the Redis that others work with.
const parallelReads = 16

// restWithin bounds what is read of all elections beside their status: a node that hangs
// delays each roll.
const restWithin = 5 * time.Second

// reports reads all elections. The error is that of the first one for which no
// majority answered.
func reports(ctx context.Context, q *elector.Quorum, names []string) ([]report, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	rest, done := context.WithTimeout(ctx, restWithin)
	defer done()
	all := make([]report, len(names))
	next := make(chan int)
	var denied atomic.Bool // each refused roll call disturbs the subscription
	var wg sync.WaitGroup
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
				r.readRest(rest, el, &denied)
			}
		})
	}
	for i := range names {
		next <- i
	}
	close(next)
	wg.Wait()
	err := context.Cause(ctx)
	for i := range all { // a name that is none, or keys that another program wrote: of that election alone
		err = cmp.Or(err, all[i].err)
	}
	return all, err
}

// fewTerms are enough to see that leadership flaps, and few for a list of all elections.
const fewTerms = 10

// readRest reads the roll and the last terms.
func (r *report) readRest(ctx context.Context, el *elector.Election, denied *atomic.Bool) {
	terms, err := el.History(ctx, fewTerms) // without it the list has less to show
	r.unused = err == nil && longGone(terms, time.Now())
	defer func() { r.recall(terms, fewTerms, time.Now()) }()
	if r.rollErr = elector.ErrDenied; denied.Load() {
		return
	}
	r.roll, r.rollErr = el.Candidates(ctx)
	if errors.Is(r.rollErr, elector.ErrDenied) {
		denied.Store(true)
	}
	if r.rollErr == nil && len(r.roll) == 0 && ctx.Err() != nil {
		r.rollErr = ctx.Err()
	}
	r.checkLeader(ctx, el)
}
