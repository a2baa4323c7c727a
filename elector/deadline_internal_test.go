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

// Each term that is not renewed ends at its own deadline, to the moment, and one that is renewed does not.
func TestEachTermEndsAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timing := lease.Timing{Lease: 10 * time.Second}.WithDefaults()
		clock := lease.NewClock(nil)
		const renewed = 7
		var all []*Term
		var at [20]atomic.Int64
		for i := range at {
			term := newTerm(context.Background(), clock, uint64(i)+1, lease.NewGrant(clock, timing, clock.Now()))
			term.guard(timing.RenewEvery())
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
		if all[renewed].Err() == nil {
			t.Error("a term that is renewed no longer has not ended")
		}
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
				term := newTerm(context.Background(), clock, 1, lease.NewGrant(clock, timing, clock.Now()))
				term.guard(timing.RenewEvery())
				for range 8 {
					time.Sleep(timing.RenewEvery())
					term.grant.Renew(clock.Now())
				}
				suspend(w)
				woke := time.Now()
				select {
				case <-term.ctx.Done():
				case <-time.After(timing.Lease):
					term.end(ReasonResigned, nil)
				}
				if late := time.Since(woke); late > timing.RenewEvery() {
					t.Fatalf("ended %v after the suspend: %v", late, term.Err())
				}
				_, text, _ := strings.Cut(term.Err().Error(), "suspended for ")
				away, err := time.ParseDuration(text)
				if off := away - time.Hour; name != "no clock shows that" && (err != nil || off > timing.RenewEvery() || off < -2*timing.RenewEvery()) {
					t.Errorf("ended with %v", term.Err())
				}
				time.Sleep(2 * timing.RenewEvery()) // the guard ends
			})
		})
	}
}
