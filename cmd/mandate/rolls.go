package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// rollCalls are those of many elections at one time.
type rollCalls struct {
	begun  atomic.Bool
	first  chan struct{} // closed when the first one has shown whether Redis allows them
	shown  func()
	denied atomic.Bool // each refused roll call disturbs the subscription
}

// refusalWithin is longer than a refusal takes. Candidates that do not answer take longer.
const refusalWithin = 100 * time.Millisecond

func newRollCalls() *rollCalls {
	c := &rollCalls{first: make(chan struct{})}
	c.shown = sync.OnceFunc(func() { close(c.first) })
	return c
}

// call calls the roll of an election, unless that is not allowed. The error of one that was cut
// off is that of ctx: it shows nothing of those that are missing.
func (c *rollCalls) call(ctx context.Context, el *elector.Election) ([]elector.CandidateStatus, error) {
	if c.begun.CompareAndSwap(false, true) {
		time.AfterFunc(refusalWithin, c.shown)
		defer c.shown()
	} else {
		<-c.first
	}
	if c.denied.Load() {
		return nil, elector.ErrDenied
	}
	roll, err := el.Candidates(ctx)
	if errors.Is(err, elector.ErrDenied) {
		c.denied.Store(true)
	}
	if err == nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return roll, err
}

// restWithin bounds what is read of all elections beside their status: a node that hangs
// delays each roll.
const restWithin = 5 * time.Second

// missingRolls is the error of a list in which the candidates of some elections are missing,
// usually because time was up; nil when it is complete, or when this Redis user may not call the roll.
func missingRolls(all []report) error {
	var first *report
	missing := 0
	for i := range all {
		if r := &all[i]; r.err == nil && r.group == nil && r.rollErr != nil && !errors.Is(r.rollErr, elector.ErrDenied) {
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
