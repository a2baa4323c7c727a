package shard

import (
	"slices"
	"testing"
	"testing/synctest"
)

// What is reported to a member's reconciler waits there in order, and nobody waits for that: neither the
// release of a shard that moves, nor the begin of its work at the next owner.
func TestReportsWaitForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, want := newInbox(), []event{}
		for i := range 1000 {
			b.put(i)
			want = append(want, i)
		}
		<-b.arrived
		if got := b.take(); !slices.Equal(got, want) || len(b.take()) > 0 {
			t.Errorf("taken: %v", got)
		}
		b.put("one")
		<-b.arrived
		b.close()
		b.put("late")
		if got := b.take(); len(got) > 0 {
			t.Errorf("taken after the end: %v", got)
		}
	})
}
