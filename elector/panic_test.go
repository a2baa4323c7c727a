package elector_test

import (
	"context"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// recovered runs f, and returns what it panicked with.
func recovered(f func()) (value any) {
	defer func() { value = recover() }()
	f()
	return nil
}

// A program whose work panics in a campaigned term ends, and the next leader must not wait
// for the lease of a dead one; an operator wants to see why it ended. So a deferred Close
// releases, records, and lets the panic go on.
func TestCloseDuringAPanic(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a := makeCandidate(t, c.Quorum("a"), "a")
		term, err := a.Campaign(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		b := c.Start("b")
		b.Quiet(shortLease)
		value := recovered(func() {
			defer term.Close(context.Background())
			panic("boom")
		})
		if value != "boom" {
			t.Errorf("the caller sees the panic %v", value)
		}
		b.Elected(time.Second)
		wantReason(t, term, 0, elector.ReasonPanicked)
		records, err := b.Election().History(t.Context(), 2)
		if err != nil || len(records) != 2 || records[1].Reason != elector.ReasonPanicked || records[1].Detail != "panic: boom" {
			t.Errorf("the history: %+v, %v", records, err)
		}
	})
}

// The process must not outlive its panic by a lease because Redis hangs.
func TestCloseDelaysAPanicForABoundedTime(t *testing.T) {
	bubble(t, 3, func(t *testing.T, c *cluster) {
		a := makeCandidate(t, c.Quorum("a"), "a")
		term, err := a.Campaign(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c.Nodes[0].Set(frozen)
		c.Nodes[1].Set(frozen)
		began := time.Now()
		recovered(func() {
			defer term.Close(context.Background())
			panic("boom")
		})
		if d := time.Since(began); d > shortLease/2 {
			t.Errorf("the panic went on after %v", d)
		}
		c.Heal()
	})
}
