package elector_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// Of ten thousand elections in a process nearly all wait: each with a goroutine for the state
// machine, one for its peers, one for the work of a leader, and none for anything else.
func TestWaitingCandidatesHaveFewGoroutines(t *testing.T) {
	const elections = 20
	bubble(t, 3, func(t *testing.T, c *cluster) {
		leading, following := c.Quorum("a"), c.Quorum("b")
		begin := func(q *elector.Quorum, i int) *candidate {
			return makeCandidate(t, q, "candidate", func(cfg *elector.Config) { cfg.Election = fmt.Sprint("election-", i) }).Begin(nil)
		}
		before := ofCandidates()
		for i := range elections {
			begin(leading, i).Elected(2 * shortLease)
		}
		time.Sleep(shortLease / 16) // no renewal is due yet
		led := ofCandidates()
		for i := range elections {
			begin(following, i)
		}
		time.Sleep(shortLease / 16)
		followed := ofCandidates()
		if before != 0 || led != 3*elections || followed-led != 2*elections {
			t.Errorf("%d goroutines before, %d for %d that lead, %d more for as many that follow", before, led, elections, followed-led)
		}
	})
}

// ofCandidates is how many goroutines are those of candidates.
func ofCandidates() (n int) {
	synctest.Wait()
	buf := make([]byte, 8<<20)
	for g := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		for _, of := range []string{"elector.(*", "internal/peers.", "internal/standby.", "internal/quorum.", "internal/nodes.", "mandate/health."} {
			if strings.Contains(g, of) {
				n++
				break
			}
		}
	}
	return n
}

// After an outage elections that share calls survive nearly as those that have connections of their own do: one that has
// little time left does not cut the calls of the others.
func TestOutageOfManyElections(t *testing.T) {
	for name, c := range map[string]struct {
		outage fault
		begins int // at which moments they renew decides which of them survive
	}{"refused": {down, 4}, "hung": {frozen, 1}} {
		t.Run(name, func(t *testing.T) {
			apart, together := 0, 0
			for i := range c.begins {
				begin := shortLease / 64 * time.Duration(i)
				apart += survivors(t, c.outage, begin, false)
				together += survivors(t, c.outage, begin, true)
			}
			if t.Logf("%d survive apart, %d together", apart, together); together < apart*3/5 {
				t.Errorf("%d elections survive apart, and only %d together", apart, together)
			}
		})
	}
}

// survivors counts the terms of 32 elections, on one Quorum or on one each, that survive an outage of 0.42 leases.
func survivors(t *testing.T, outage fault, begin time.Duration, together bool) (n int) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		time.Sleep(begin)
		const trip = 300 * time.Millisecond
		far(c, trip, 0)
		q, terms, began := c.Quorum("a"), []*elector.Term(nil), time.Now()
		for i := range 32 {
			if !together {
				q = c.Quorum("a")
			}
			time.Sleep(time.Until(began.Add(time.Duration(i) * (2*time.Second + shortLease/97)))) // so that they renew at many moments
			e := makeCandidate(t, q, "a", func(cfg *elector.Config) { cfg.Election = fmt.Sprint("election-", i) }).Begin(nil)
			terms = append(terms, e.Elected(3*shortLease))
		}
		time.Sleep(time.Until(began.Add(8 * shortLease)))
		c.Each(outage)
		time.Sleep(shortLease * 42 / 100)
		far(c, trip, 0)
		time.Sleep(3 * shortLease)
		for _, term := range terms {
			if term.Valid() {
				n++
			}
		}
	})
	return n
}

// Work that returns at once is told so, once, and not only by pauses that double; a job that is done after some leases is not.
func TestWorkThatReturnsAtOnceIsWarnedOf(t *testing.T) {
	for _, c := range []struct {
		takes time.Duration
		want  int
	}{{0, 1}, {shortLease, 1}, {5 * shortLease, 0}} {
		bubble(t, 1, func(t *testing.T, cl *cluster) {
			a := makeCandidate(t, cl.Quorum("a"), "a").Begin(func(context.Context, *elector.Term) error {
				time.Sleep(c.takes)
				return nil
			})
			time.Sleep(40 * shortLease)
			lines := a.Log.Lines("level=WARN")
			if len(lines) != c.want || c.want > 0 && !strings.Contains(lines[0], "it must run until its context ends") {
				t.Errorf("the work returns after %v: %q", c.takes, lines)
			}
		})
	}
}
