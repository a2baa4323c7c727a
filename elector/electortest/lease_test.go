package electortest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electortest"
	"github.com/mandate-dev/mandate/elector/proof/testcluster"
)

func TestLeadMakesTheChosenOneLead(t *testing.T) {
	electortest.Test(t, func(t *testing.T, r *electortest.Redis) {
		var all []*elector.Elector
		for i := range 5 {
			id := fmt.Sprintf("c%d", i)
			all = append(all, start(t, r.Quorum(id), id))
		}
		token := uint64(0)
		for round := range 20 {
			e := all[(round*3)%len(all)]
			began := time.Now()
			r.Lead(e)
			if d := time.Since(began); d > 2*lease {
				t.Errorf("round %d: it took %v", round, d)
			}
			if !e.IsLeader() || e.Term().Token() <= token {
				t.Fatalf("round %d: leads: %v, token %d after %d", round, e.IsLeader(), e.Term().Token(), token)
			}
			token = e.Term().Token()
			for _, after := range []time.Duration{0, 3 * lease} { // those that it keeps out have met a leader, and no trouble
				electortest.Advance(after)
				for _, o := range all {
					if err := o.Check(); err != nil || after > 0 && o.IsLeader() != (o == e) {
						t.Fatalf("round %d: %s leads: %v, %v", round, o.ID(), o.IsLeader(), err)
					}
				}
			}
		}
	})
}

// The lease of one election is taken, in its namespace; another one on the same quorum goes on.
func TestTakeLease(t *testing.T) {
	electortest.Test(t, func(t *testing.T, r *electortest.Redis) {
		q := r.Quorum("a")
		beside := start(t, q, "a", func(c *elector.Config) { c.Election = "beside" })
		e := start(t, q.Namespace("mine"), "a")
		r.Lead(beside)
		r.Lead(e)
		term := e.Term()
		began := time.Now()
		r.TakeLease(e)
		if d := time.Since(began); d > lease/4+time.Second/10 {
			t.Errorf("the end came after %v, the next renewal is after %v at most", d, lease/4)
		}
		testcluster.WantReason(t, term, 0, elector.ReasonLost)
		if l, err := e.Election().Leader(t.Context()); err != nil || l.Candidate == "a" || l.Token <= term.Token() {
			t.Errorf("the leader is %+v (%v), want a rival with a higher token than %d", l, err, term.Token())
		}
		electortest.Advance(lease / 2)
		if e.IsLeader() || !beside.IsLeader() {
			t.Errorf("e leads beside the rival: %v, the other election is led: %v", e.IsLeader(), beside.IsLeader())
		}
		electortest.Advance(lease)
		if !e.IsLeader() || e.Term().Token() <= term.Token()+1 {
			t.Errorf("e did not lead again after the rival's lease, with a token above the rival's: %d", e.Term().Token())
		}
	})
}
