package elector

import (
	"context"

	"github.com/mandate-dev/mandate/elector/internal/lease"
	"github.com/mandate-dev/mandate/elector/internal/ungranted"
)

func init() { //nolint:gochecknoinits // no exported way to make a term
	ungranted.New = func(token uint64) (any, func(string)) {
		t, end := ungrantedTerm(token)
		return t, func(reason string) { end(Reason(reason)) }
	}
}

// ungrantedTerm makes a term that no election granted, for a test of a program's work. It is valid
// for the longest lease, and Term.Close ends it like a term of Campaign. The returned function ends
// it for a reason.
func ungrantedTerm(token uint64) (*Term, func(Reason)) {
	clock := lease.NewClock(nil)
	t := newTerm(context.Background(), clock, token, lease.NewGrant(clock, lease.Timing{Lease: lease.MaxLease}, clock.Now()))
	t.stopped = make(chan struct{})
	go func() {
		select {
		case <-t.stopped:
		case <-t.ctx.Done():
		}
		t.end(t.requested())
		close(t.over)
	}()
	return t, func(r Reason) { t.end(r, nil) }
}
