package elector

import (
	"context"
	"testing"

	"github.com/mandate-dev/mandate/elector/internal/pubsub"
)

// A loop that was too slow gets the count first and the newest events after it, so that
// what it gets last is how things stand.
func TestSkippedComesBeforeTheNewest(t *testing.T) {
	var f subscribers
	s := f.subscribe()
	for i := range 3 * eventBuffer {
		f.publish(Event{Kind: EventHealthy, Count: i})
	}
	var got []Event
	o := &observer{
		el:    &Election{name: "orders", bus: &pubsub.Bus{}, own: &ownCandidate{events: &f}},
		yield: func(ev Event) bool { got = append(got, ev); return true },
		end:   func() {}, local: s, inbox: newInbox("orders", nil),
	}
	if !o.ownEvents(context.Background()) {
		t.Fatal("ended")
	}
	if len(got) != eventBuffer+1 || got[0].Kind != EventSkipped || got[0].Count != 2*eventBuffer {
		t.Fatalf("%d events, first %+v", len(got), got[0])
	}
	if last := got[len(got)-1]; last.Count != 3*eventBuffer-1 {
		t.Errorf("the newest is missing: the last one is %+v", last)
	}
	if o.ownEvents(context.Background()); len(got) != eventBuffer+1 {
		t.Error("reported again")
	}
}
