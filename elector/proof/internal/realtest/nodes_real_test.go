//go:build unix

package realtest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/internal/servertest"
)

// A minority that hangs costs nothing: not the term, and not the handover.
func TestRealHungMinority(t *testing.T) {
	t.Parallel()
	servers, el, term := contested(t, 3)
	servers[0].Hang(t)
	el.survives(term, 2*lease)
	el.all[0].shutdown()
	_, two := el.next(term.Token(), lease)
	servers[0].Wake(t)
	el.survives(two, lease)
}

// A majority that hangs: the leader stops by its deadline, no candidate leads, and
// when they are back somebody does, within a lease and a little.
func TestRealHungMajority(t *testing.T) {
	t.Parallel()
	servers, el, term := contested(t, 3)
	began := time.Now()
	for _, s := range servers[:2] {
		s.Hang(t)
	}
	el.ends(term, lease, elector.ReasonExpired)
	if d := time.Since(began); d > lease {
		t.Errorf("the work was told %v after the last possible renewal, with a lease of %v", d, lease)
	}
	time.Sleep(lease)
	for _, c := range el.all {
		if c.IsLeader() {
			t.Errorf("%s leads without a majority", c.ID())
		}
		if c.Check() == nil {
			t.Errorf("%s: Check is content without a majority", c.ID())
		}
	}
	for _, s := range servers[:2] {
		s.Wake(t)
	}
	_, two := el.next(term.Token(), lease+slack)
	el.survives(two, lease)
}

// Every node in turn is killed and comes back with its data: the term goes on,
// a single node included, because nothing was forgotten.
func TestRealKilledWithData(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprintf("n=%d", n), func(t *testing.T) {
			t.Parallel()
			servers, el, term := contested(t, n)
			for _, s := range servers {
				s.Kill()
				s.Restart(t)
				if n > 1 { // a single node may be late on a busy machine
					el.survives(term, lease/2)
				}
			}
			time.Sleep(lease / 2)
			_, now := el.next(0, lease+slack) // the old term, or one that follows its end
			el.survives(now, lease)
		})
	}
}

// Nodes of a minority come back empty, one after the other: the term goes on,
// and the lock is planted there again.
func TestRealMinorityForgets(t *testing.T) {
	t.Parallel()
	servers, el, term := contested(t, 3)
	for _, s := range servers {
		s.Kill()
		s.Forget(t)
		s.Restart(t)
		op := s.Client(t)
		servertest.Eventually(t, lease+slack, "the lock is planted again", func() bool { return op.Exists(t.Context(), lockKey).Val() == 1 })
		el.survives(term, lease) // the node abstains meanwhile
	}
}
