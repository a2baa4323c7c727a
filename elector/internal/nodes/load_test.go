package nodes

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/testredis"
)

// claim makes n claims, of which each takes so long, and returns how many were under way at a time at most.
func claim(t *testing.T, ns *Nodes, n int, took time.Duration, answered bool) (most int64) {
	t.Helper()
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			over := ns.Admit(t.Context(), time.Second)
			ns.load.mu.Lock()
			most = max(most, ns.load.claims)
			ns.load.mu.Unlock()
			time.Sleep(took)
			over(answered)
		})
	}
	all.Wait()
	return most
}

// As many elections claim at a time as get their answers well within the time-out.
func TestClaimsAreAdmitted(t *testing.T) {
	defer testredis.OneProcessor()()
	synctest.Test(t, func(t *testing.T) {
		const soon, late = 10 * time.Millisecond, 600 * time.Millisecond
		ns, far := &Nodes{load: newLoad()}, &Nodes{load: newLoad()}
		if most := claim(t, ns, MaxBatch, soon, true); most != MaxBatch {
			t.Errorf("%d of %d at a time", most, MaxBatch)
		}
		calm := claim(t, ns, 5000, soon, true)
		if calm < 2*MaxBatch {
			t.Errorf("%d at a time", calm)
		}
		for took, answered := range map[time.Duration]bool{late: true, soon: false} {
			claim(t, ns, 5000, took, answered)
			if most := claim(t, ns, 1000, took, answered); most != fewClaims {
				t.Errorf("%v, answered %v: %d at a time", took, answered, most)
			}
			if most := claim(t, ns, 5000, soon, true); most < calm/2 {
				t.Errorf("again in time: %d at a time", most)
			}
		}
		if most := claim(t, far, 5000, 2*late/3, true); most < 2*MaxBatch { // the way, and no load
			t.Errorf("far away: %d at a time", most)
		}
	})
}

// While renewals wait in the process no claim begins; a claim whose context ends gives its place up.
func TestNoClaimWhileRenewalsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ns := &Nodes{load: newLoad()}
		for range 64 {
			ns.Renewed(time.Second/2, time.Second)
		}
		if q := ns.Queued(time.Second); q < 0.3 || q > 0.5 {
			t.Errorf("they have waited for %v of their time-out", q)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/3)
		defer cancel()
		if ns.Admit(ctx, time.Second) != nil {
			t.Error("admitted")
		}
		began := time.Now()
		ns.Admit(t.Context(), time.Second)(true) // nothing renews any more
		if waited := time.Since(began); waited < time.Second/2 || waited > time.Second {
			t.Errorf("admitted after %v", waited)
		}
		ns.Renewed(0, time.Second) // what was before the rest says nothing
		if ns.Queued(time.Second) > 0 || ns.load.claims != 0 || !ns.load.admits.TryAcquire(ns.load.window) {
			t.Errorf("%+v", ns.load)
		}
	})
}
