package elector

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/registry"
)

func TestRecordsOf(t *testing.T) {
	at := time.Date(2026, 11, 21, 7, 0, 0, 0, time.UTC)
	event := func(kind EventKind, token uint64, who string, after time.Duration, reason Reason) Event {
		return Event{Version: 1, Kind: kind, Election: "e", Candidate: who, Token: token, Time: at.Add(after), Reason: reason}
	}
	text := func(evs ...Event) (all []registry.Entry) {
		for _, ev := range evs {
			all = append(all, registry.Entry{At: ev.Time, Event: string(ev.encode())})
		}
		return all
	}
	first := []Event{
		event(EventReleased, 10, "old", -time.Second, ReasonShutdown), // its begin was trimmed
		event(EventElected, 20, "a", 0, ""), event(EventReleased, 20, "a", 5*time.Second, ReasonUnhealthy),
		event(EventElected, 40, "c", 20*time.Second, ""),
	}
	second := []Event{ // another node: it missed some, and has others twice
		event(EventReleased, 20, "a", 5*time.Second, ReasonUnhealthy),
		event(EventElected, 30, "b", 6*time.Second, ""), // never heard of again
		event(EventElected, 99, "forger", 0, ""),
		{Version: 1, Kind: EventElected, Election: "other", Token: 5, Time: at},
	}
	st := Status{Election: "e", Leader: &Leader{Token: 40}, Nodes: []NodeStatus{{Fence: 40}, {Fence: 20}}}
	got := recordsOf(eventsOf([][]registry.Entry{text(first...), append(text(second...), registry.Entry{Event: "not json"})}, st, nil), st.Leader, at.Add(21*time.Second))
	want := []TermRecord{
		{Election: "e", Token: 40, Candidate: "c", From: at.Add(20 * time.Second), Current: true, Lasted: time.Second},
		{Election: "e", Token: 30, Candidate: "b", From: at.Add(6 * time.Second), Reason: ReasonVanished, MaxLasted: 14 * time.Second, MaxGap: 14 * time.Second},
		{Election: "e", Token: 20, Candidate: "a", From: at, Until: at.Add(5 * time.Second), Reason: ReasonUnhealthy, Lasted: 5 * time.Second, Gap: time.Second},
		{Election: "e", Token: 10, Candidate: "old", Until: at.Add(-time.Second), Reason: ReasonShutdown, Gap: time.Second},
	}
	if g, w := asJSON(t, got), asJSON(t, want); g != w {
		t.Errorf("got\n%s\nwant\n%s", g, w)
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
