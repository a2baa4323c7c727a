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
	onAll(t, func(t *testing.T, c *cluster) {
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

// A closure that closes the term can't see the panic: the lock is released all the same.
func TestCloseInAClosureDuringAPanic(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		a := makeCandidate(t, c.Quorum("a"), "a")
		term, err := a.Campaign(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		value := recovered(func() {
			defer func() { _ = term.Close(context.Background()) }()
			panic("boom")
		})
		if value != "boom" || c.Locks() != 0 {
			t.Errorf("the caller sees the panic %v, and %d locks are held", value, c.Locks())
		}
		wantReason(t, term, 0, elector.ReasonResigned)
	})
}

// Schedulers and HTTP servers recover from the panics of what they call: the leader that
// they are part of stays.
func TestPanicInAGate(t *testing.T) {
	bubble(t, 1, func(t *testing.T, c *cluster) {
		var gate elector.Gate
		a := makeCandidate(t, c.Quorum("a"), "a").Begin(gate.Work)
		term := a.Elected(3 * shortLease)
		time.Sleep(time.Millisecond) // the gate is open
		value := recovered(func() {
			_ = gate.Do(t.Context(), func(context.Context, *elector.Term) error { panic("boom") })
		})
		if value != "boom" || !term.Valid() {
			t.Errorf("the caller sees the panic %v, the term: %v", value, term.Err())
		}
		ran := false
		if err := gate.Do(t.Context(), func(context.Context, *elector.Term) error { ran = true; return nil }); err != nil || !ran {
			t.Errorf("the next call: %v, %v", ran, err)
		}
		a.Shutdown() // the gate waits for nothing that has gone
	})
}
