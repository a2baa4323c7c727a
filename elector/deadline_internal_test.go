package elector

import (
	"context"
	"strings"
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
		all[renewed].grant.Renew(clock.Anchor())
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

// A look that comes late, behind other terms or on a busy machine, ends no term late, also not one that had a moment
// more than the time between two looks left at the look before.
func TestLateLookEndsNoTermLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timing := lease.Timing{Lease: 10 * time.Second}.WithDefaults()
		every := timing.RetryEvery()
		var late atomic.Int64
		slow := lease.NewClock(&lease.Warp{Gate: func() { time.Sleep(time.Duration(late.Load())) }})
		clock, g := lease.NewClock(nil), &guards{}
		before := newTerm(context.Background(), slow, 1, lease.NewGrant(slow, timing, slow.Now()))
		g.add(before, every)
		const moment = 10 * time.Millisecond
		last := timing.Deadline().Truncate(every) + every // the look at which the term would end
		time.Sleep(last + moment - timing.Deadline())
		term := newTerm(context.Background(), clock, 2, lease.NewGrant(clock, timing, clock.Now()))
		g.add(term, every)
		deadline := time.Now().Add(timing.Deadline())
		time.Sleep(timing.Deadline() / 2)
		before.grant.Renew(slow.Anchor())
		time.Sleep(time.Until(deadline) - every/2) // the looks up to here were in time
		late.Store(int64(every / 4))
		<-term.ctx.Done()
		if after := time.Since(deadline); after != 0 {
			t.Errorf("ended %v after its deadline", after)
		}
		late.Store(0)
		before.end(ReasonResigned, nil)
		time.Sleep(2 * every) // the watch ends
	})
}

// After a suspend, of the machine or of the process, each term is looked at, also one whose deadline was far.
func TestNoTermIsPassedOverAfterASuspend(t *testing.T) {
	for name, suspend := range map[string]func(w *lease.Warp){
		"the machine":         func(w *lease.Warp) { w.Wall.Add(int64(time.Hour)); w.Boot.Add(int64(time.Hour)) },
		"no clock shows that": func(w *lease.Warp) { w.NoBoot.Store(true); w.Wall.Add(int64(time.Hour)) },
		"the process":         func(w *lease.Warp) { w.Mono.Add(int64(time.Hour)); w.Wall.Add(int64(time.Hour)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				timing := lease.Timing{Lease: 10 * time.Second}.WithDefaults()
				w := new(lease.Warp)
				clock := lease.NewClock(w)
				g := &guards{clock: *clock}
				term := newTerm(context.Background(), clock, 1, lease.NewGrant(clock, timing, clock.Now()))
				g.add(term, timing.RetryEvery())
				for range 8 {
					time.Sleep(timing.RenewEvery())
					term.grant.Renew(clock.Anchor())
				}
				suspend(w)
				woke := time.Now()
				awaitEnd(term)
				if late := time.Since(woke); late > timing.RetryEvery() {
					t.Fatalf("ended %v after the suspend: %v", late, term.Err())
				}
				_, text, _ := strings.Cut(term.Err().Error(), "suspended for ")
				away, err := time.ParseDuration(text)
				if off := away - time.Hour; name != "no clock shows that" && (err != nil || off > timing.RetryEvery() || off < -2*timing.RetryEvery()) {
					t.Errorf("ended with %v", term.Err())
				}
				time.Sleep(2 * timing.RetryEvery()) // the watch ends
			})
		})
	}
}

// awaitEnd gives up after a lease.
func awaitEnd(term *Term) {
	select {
	case <-term.ctx.Done():
	case <-time.After(10 * time.Second):
		term.end(ReasonResigned, nil)
	}
}
