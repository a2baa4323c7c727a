package quorum

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/testredis"
)

// claims begin in a process, in their order; each lasts for took and is answered or not.
type claims struct {
	ns    *Nodes
	begun []int
	took  time.Duration
}

// claim begins n claims, and returns how many were under way at a time at most.
func (c *claims) claim(t *testing.T, n int, answered bool) (most int) {
	t.Helper()
	c.begun = nil
	under := 0
	for i := range n {
		go func() {
			over := c.ns.Admit(t.Context(), time.Second)
			c.begun = append(c.begun, i) // no two goroutines of a bubble run at once here: see OneProcessor
			under++
			most = max(most, under)
			time.Sleep(c.took)
			under--
			over(answered)
		}()
		synctest.Wait()
	}
	time.Sleep(time.Hour)
	return most
}

// As many elections claim at a time as get their answers well within the time-out, the longest waiting first.
func TestClaimsAreAdmitted(t *testing.T) {
	defer testredis.OneProcessor()()
	synctest.Test(t, func(t *testing.T) {
		c := &claims{ns: &Nodes{load: newLoad()}, took: 10 * time.Millisecond}
		if most := c.claim(t, maxBatch, true); most != maxBatch {
			t.Errorf("%d of %d at a time", most, maxBatch)
		}
		calm := c.claim(t, 5000, true)
		if calm < 2*maxBatch {
			t.Errorf("%d at a time", calm)
		}
		for what, answered := range map[string]bool{"late": true, "unanswered": false} {
			if answered {
				c.took = 600 * time.Millisecond
			}
			c.claim(t, 5000, answered)
			if most := c.claim(t, 1000, answered); most != 1 {
				t.Errorf("%s: %d at a time", what, most)
			}
			if !slices.IsSorted(c.begun) {
				t.Errorf("%s: claims begin in the order %v", what, c.begun)
			}
			c.took = 10 * time.Millisecond
			if most := c.claim(t, 5000, true); most < calm/2 {
				t.Errorf("again in time: %d at a time", most)
			}
		}
		far := &claims{ns: &Nodes{load: newLoad()}, took: 400 * time.Millisecond} // the way, and no load
		if most := far.claim(t, 5000, true); most < 2*maxBatch {
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
		if ns.Queued(time.Second) > 0 || ns.load.claims != 0 || !ns.load.admits.TryAcquire(ns.load.window) {
			t.Errorf("%+v", ns.load)
		}
	})
}

// A renewal that is not answered is sent again to a node from which nothing comes, not to one that answers others.
func TestBusyNodeIsNotAskedAgain(t *testing.T) {
	for name, busy := range map[string]bool{"silent": false, "busy": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, p *cluster) {
				p.counters("1")
				a := p.voter("a")
				token := a.wins(1)
				time.Sleep(testLease)
				p.Nodes[0].Took()
				a.line(0, testredis.Frozen)
				a.Renew(time.Now().Add(testLease), token, protocol.Heir{}, func() bool { return true })
				time.Sleep(testLease / 10)
				if busy {
					a.nodes.list[0].answered.Store(time.Now().UnixNano())
				}
				a.RenewAgain()
				synctest.Wait()
				if sent := a.renewal.sent[0]; (sent == 1) != busy {
					t.Errorf("sent %d times", sent)
				}
				a.line(0, testredis.Fault{})
			})
		})
	}
}
