package elector

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/lease"
)

// However many terms there are: each that is not renewed ends at its own deadline, to the moment, and one that is
// renewed does not.
func TestEachTermEndsAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timing := lease.Timing{Lease: 10 * time.Second}.WithDefaults()
		clock, g := lease.NewClock(nil), &guards{}
		const renewed = 2*maxWatched + 7
		var all []*Term
		at := make([]atomic.Int64, 3*maxWatched)
		for i := range 3 * maxWatched {
			term := newTerm(context.Background(), clock, uint64(i)+1, lease.NewGrant(clock, timing, clock.Now()))
			g.add(term, timing.RetryEvery())
			all = append(all, term)
			context.AfterFunc(term.ctx, func() { at[i].Store(time.Now().UnixNano()) })
			time.Sleep(time.Millisecond)
		}
		time.Sleep(5 * time.Second)
		all[renewed].grant.Renew(clock.Now())
		time.Sleep(4 * time.Second)
		for i, term := range all {
			if ended := term.Err() != nil; ended != (i != renewed) {
				t.Fatalf("term %d: %v", i, term.Err())
			}
			if i == renewed {
				continue
			}
			if late := time.Unix(0, at[i].Load()).Sub(term.since.Add(timing.Deadline())); late != 0 {
				t.Fatalf("term %d ended %v after its deadline", i, late)
			}
		}
		time.Sleep(5 * time.Second)
		g.mu.Lock()
		defer g.mu.Unlock()
		if all[renewed].Err() == nil || len(g.watches) > 0 {
			t.Errorf("%d watches look after terms that have ended: %v", len(g.watches), all[renewed].Err())
		}
	})
}
