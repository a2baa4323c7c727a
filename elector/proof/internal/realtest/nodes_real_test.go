//go:build unix

package realtest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/internal/servertest"
)

func eachSize(t *testing.T, test func(t *testing.T, n int)) {
	for _, n := range []int{1, 3, 5} {
		t.Run(fmt.Sprintf("n=%d", n), func(t *testing.T) {
			t.Parallel()
			test(t, n)
		})
	}
}

// A minority that hangs costs nothing: not the term, and not the handover.
func TestRealHungMinority(t *testing.T) {
	t.Parallel()
	for _, n := range []int{3, 5} {
		t.Run(fmt.Sprintf("n=%d", n), func(t *testing.T) {
			t.Parallel()
			servers, el, term := contested(t, n)
			for _, s := range servers[:n/2] {
				s.Hang(t)
			}
			el.survives(term, 3*lease)
			el.all[0].shutdown()
			_, two := el.next(term.Token(), lease)
			for _, s := range servers[:n/2] {
				s.Wake(t)
			}
			el.survives(two, 2*lease)
		})
	}
}

// A majority that hangs: the leader stops by its deadline, no candidate leads, and
// when they are back somebody does, within a lease and a little.
func TestRealHungMajority(t *testing.T) {
	t.Parallel()
	eachSize(t, func(t *testing.T, n int) {
		servers, el, term := contested(t, n)
		began := time.Now()
		for _, s := range servers[:n/2+1] {
			s.Hang(t)
		}
		el.ends(term, lease, elector.ReasonExpired)
		if d := time.Since(began); d > lease {
			t.Errorf("the work was told %v after the last possible renewal, with a lease of %v", d, lease)
		}
		time.Sleep(2 * lease)
		for _, c := range el.all {
			if c.IsLeader() {
				t.Errorf("%s leads without a majority", c.ID())
			}
			if c.Check() == nil {
				t.Errorf("%s: Check is content without a majority", c.ID())
			}
		}
		for _, s := range servers[:n/2+1] {
			s.Wake(t)
		}
		_, two := el.next(term.Token(), lease+slack)
		el.survives(two, lease)
	})
}

// Every node in turn is killed and comes back with its data: the term goes on,
// a single node included, because nothing was forgotten.
func TestRealKilledWithData(t *testing.T) {
	t.Parallel()
	eachSize(t, func(t *testing.T, n int) {
		servers, el, term := contested(t, n)
		for _, s := range servers {
			s.Kill()
			s.Restart(t)
			if n == 1 {
				time.Sleep(lease / 2) // a single node may be late on a busy machine
				continue
			}
			el.survives(term, lease/2)
		}
		goesOnOrNext(el, term)
	})
}

// All nodes at once, with their data: the term goes on, or another follows.
func TestRealAllKilledWithData(t *testing.T) {
	t.Parallel()
	eachSize(t, func(t *testing.T, n int) {
		servers, el, term := contested(t, n)
		for _, s := range servers {
			s.Kill()
		}
		for _, s := range servers {
			s.Restart(t)
		}
		goesOnOrNext(el, term)
	})
}

// goesOnOrNext wants a valid term within a lease and a little: the old one, or
// one with a larger token that follows its end.
func goesOnOrNext(el *electorate, term *elector.Term) {
	el.t.Helper()
	time.Sleep(el.lease / 2)
	_, now := el.next(0, el.lease+slack)
	if now.Token() != term.Token() && term.Valid() {
		el.t.Errorf("token %d leads beside %d", now.Token(), term.Token())
	}
	el.survives(now, el.lease)
	if now.Token() != term.Token() {
		el.t.Logf("another term: %d after %d, %v", now.Token(), term.Token(), term.Err())
	}
}

// Nodes of a minority come back empty, one after the other: the term goes on,
// and the lock is planted there again.
func TestRealMinorityForgets(t *testing.T) {
	t.Parallel()
	for _, n := range []int{3, 5} {
		t.Run(fmt.Sprintf("n=%d", n), func(t *testing.T) {
			t.Parallel()
			servers, el, term := contested(t, n)
			for _, s := range servers {
				s.Kill()
				s.Forget(t)
				s.Restart(t)
				op := s.Client(t)
				servertest.Eventually(t, lease+slack, "the lock is planted again", func() bool { return op.Exists(t.Context(), lockKey).Val() == 1 })
				el.survives(term, lease) // the node abstains meanwhile
			}
		})
	}
}

// A majority comes back empty: noticed at the next renewal, and the next token
// is larger although no majority remembers the last one. When they come back so
// slowly that a renewal falls in between, no majority has forgotten at any one
// time, and the term goes on.
func TestRealMajorityForgets(t *testing.T) {
	t.Parallel()
	eachSize(t, func(t *testing.T, n int) {
		servers, el, term := contested(t, n)
		for _, s := range servers[:n/2+1] {
			s.Kill()
			s.Forget(t)
		}
		for _, s := range servers[:n/2+1] {
			s.Restart(t)
		}
		select {
		case <-term.Done():
			el.ends(term, slack, elector.ReasonLost, elector.ReasonExpired)
		case <-time.After(lease):
			if n == 1 {
				t.Fatal("the only node forgot, and nobody noticed")
			}
			t.Logf("the nodes came back one by one: the term goes on")
			el.survives(term, lease)
			return
		}
		// They abstain for a lease, from the first request after their return.
		_, two := el.next(term.Token(), 2*lease+slack)
		el.survives(two, lease)
	})
}
