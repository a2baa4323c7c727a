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

// rollCalls coordinates the concurrent roll calls of many elections.
type rollCalls struct {
	begun  atomic.Bool
	first  chan struct{} // closed when the first call has shown whether Redis allows roll calls
	shown  func()
	denied atomic.Bool // the user may not call the roll: each refusal interrupts the subscription
}

// refusalWithin is how long the other calls wait for the first one. Redis refuses a call faster
// than this; a call that is still running waits for candidates, and so is allowed.
const refusalWithin = 100 * time.Millisecond

func newRollCalls() *rollCalls {
	c := &rollCalls{first: make(chan struct{})}
	c.shown = sync.OnceFunc(func() { close(c.first) })
	return c
}

// call calls the roll of an election, unless the user may not. If ctx has ended meanwhile, it
// returns the error of ctx with the roll, because candidates may be missing in that roll.
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

// restWithin bounds the time for reading everything but the status of all elections: a node that
// hangs delays each roll call.
const restWithin = 5 * time.Second

// missingRolls returns an error if the candidates of some elections are unknown, usually because
// time was up. It returns nil if all are known, or if this Redis user may not call the roll.
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
