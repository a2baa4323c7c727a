package testcluster

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

// Tick is how exactly tests look at what happens.
const Tick = 100 * time.Microsecond

// Await reads from a channel, at the latest when the time is up. What has come by then
// counts: on a starved machine both are ready, and a select takes any of them.
func Await[T any](from <-chan T, within time.Duration) (v T, open, came bool) {
	select {
	case v, open = <-from:
		return v, open, true
	case <-time.After(within):
	}
	select {
	case v, open = <-from:
		return v, open, true
	default:
		return v, false, false
	}
}

// Eventually waits until ok holds.
func Eventually(t testing.TB, within time.Duration, what string, ok func() bool) {
	t.Helper()
	servertest.Poll(t, Tick, within, what, ok)
}

// ReasonOf waits for a term's end and returns why.
func ReasonOf(t testing.TB, term *elector.Term, within time.Duration) *elector.Ended {
	t.Helper()
	if _, _, came := Await(term.Done(), within+Tick); !came {
		t.Fatalf("the term did not end within %v", within)
	}
	ended, ok := errors.AsType[*elector.Ended](term.Err())
	if !ok {
		t.Fatalf("Err is %v", term.Err())
	}
	return ended
}

// WantReason waits for a term's end and wants that reason.
func WantReason(t testing.TB, term *elector.Term, within time.Duration, want elector.Reason) *elector.Ended {
	t.Helper()
	ended := ReasonOf(t, term, within)
	if ended.Reason != want {
		t.Fatalf("the term ended with %q (%v), want %q", ended.Reason, ended, want)
	}
	return ended
}

// ElectionOf is the election of that name, for a test that knows the name to be right.
func ElectionOf(q *elector.Quorum, name string) *elector.Election {
	el, err := q.Election(name)
	if err != nil {
		panic(err)
	}
	return el
}

// Observe hands what a loop over Observe gets to a channel, which closes after ctx has
// ended.
func Observe(ctx context.Context, el *elector.Election) <-chan elector.Event {
	events := make(chan elector.Event)
	go func() {
		defer close(events)
		for ev := range el.Observe(ctx) {
			select {
			case events <- ev:
			case <-ctx.Done():
			}
		}
	}()
	return events
}
