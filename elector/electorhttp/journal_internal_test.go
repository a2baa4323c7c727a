package electorhttp

import (
	"testing"

	"github.com/mandate-dev/mandate/elector"
)

// The journal keeps a bounded number of events, and tells a reader that comes too late how
// many it missed. The numbers of another process, and those of the future, are nobody's.
func TestJournalIsBounded(t *testing.T) {
	j := newJournal()
	for i := range uint64(2*kept + 7) {
		j.add(elector.Event{Kind: elector.EventElected, Token: i + 1})
		if len(j.entries) > kept || cap(j.entries) > 4*kept {
			t.Fatalf("%d entries, room for %d", len(j.entries), cap(j.entries))
		}
	}
	for _, c := range []struct {
		after  uint64
		events int
		lost   int
	}{
		{0, kept, kept + 7},
		{kept + 6, kept, 1},
		{kept + 7, kept, 0},
		{kept + 8, kept - 1, 0},
		{2*kept + 6, 1, 0},
		{2*kept + 7, 0, 0},
	} {
		events, lost, _, _ := j.after(c.after)
		if len(events) != c.events || lost != c.lost || len(events) > 0 && events[len(events)-1].Token != 2*kept+7 {
			t.Errorf("after %d: %d events and %d lost, want %d and %d", c.after, len(events), lost, c.events, c.lost)
		}
	}
	for id, want := range map[string]bool{
		j.id(1): true, j.id(2*kept + 7): true, j.id(2*kept + 8): false, newJournal().id(1): false, j.session + "-01": false, "1": false, "": false,
	} {
		if _, ok := j.number(id); ok != want {
			t.Errorf("%q: %v", id, ok)
		}
	}
}

// When the observing has ended nobody tells of a change any more: the leader that was
// reported last must not be named for ever.
func TestClosedJournalNamesNoLeader(t *testing.T) {
	j := newJournal()
	j.open()
	j.add(elector.Event{Kind: elector.EventElected, Token: 7, Candidate: "a"})
	_, _, changed, closed := j.after(1)
	if l := j.leader(); l == nil || l.Token != 7 || closed {
		t.Fatalf("%+v, closed %v", l, closed)
	}
	j.close()
	<-changed
	if l := j.leader(); l != nil {
		t.Errorf("%+v leads", l)
	}
	if _, _, _, closed := j.after(1); !closed {
		t.Error("streams go on")
	}
	if ev, n, ok := j.now("e"); !ok || n != 1 || ev.Kind != elector.EventVacant {
		t.Errorf("%+v, %d, %v", ev, n, ok)
	}
}

// A term's end leaves nobody who leads, whoever reports it: the observer that saw the lock
// lapse, or the leader that released it.
func TestJournalForgetsWhoseTermEnded(t *testing.T) {
	for _, kind := range []elector.EventKind{elector.EventReleased, elector.EventVacant} {
		j := newJournal()
		j.add(elector.Event{Kind: elector.EventElected, Token: 7, Candidate: "a"})
		j.add(elector.Event{Kind: elector.EventStopping, Token: 7, Candidate: "a"})
		if l := j.leader(); l == nil || l.Candidate != "a" {
			t.Errorf("while it stops: %+v", l)
		}
		j.add(elector.Event{Kind: kind, Token: 7, Candidate: "a"})
		if l := j.leader(); l != nil {
			t.Errorf("after %s: %+v leads", kind, l)
		}
		if ev, _, ok := j.now("e"); !ok || ev.Kind != elector.EventVacant || ev.Token != 7 || ev.Election != "e" {
			t.Errorf("after %s: %+v, %v", kind, ev, ok)
		}
	}
}
