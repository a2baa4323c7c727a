package electortest_test

import (
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/electortest"
)

func TestCutOff(t *testing.T) {
	electortest.Test(t, func(t *testing.T, r *electortest.Redis) {
		a, b := start(t, r, "a"), start(t, r, "b")
		r.Lead(a)
		term := a.Term()
		heal := r.CutOff("a")
		deadline := time.Until(term.Deadline())
		electortest.Advance(deadline - time.Second)
		if !a.IsLeader() {
			t.Fatal("a gave up before its deadline")
		}
		electortest.Advance(time.Second)
		wantReason(t, term, elector.ReasonExpired)
		electortest.Advance(lease / 2)
		if a.IsLeader() || !b.IsLeader() {
			t.Fatalf("a leads: %v, b leads: %v", a.IsLeader(), b.IsLeader())
		}
		heal()
		heal()
		r.Lead(a)

		healAll := r.CutOff()
		electortest.Advance(2 * lease)
		if a.IsLeader() || b.IsLeader() {
			t.Fatal("a candidate leads without Redis")
		}
		if err := a.Check(); err == nil {
			t.Error("a says that it can take part")
		}
		healAll()
		electortest.Advance(2 * lease)
		if !a.IsLeader() && !b.IsLeader() {
			t.Fatal("no candidate leads again")
		}
	})
}
