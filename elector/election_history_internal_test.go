package elector

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

func TestRecordsOf(t *testing.T) {
	at := time.Date(2026, 11, 21, 7, 0, 0, 0, time.UTC)
	event := func(kind string, token uint64, who string, after time.Duration, reason Reason) Event {
		return Event{Version: 1, Kind: kind, Election: "e", Candidate: who, Token: token, Time: at.Add(after), Reason: reason}
	}
	text := func(evs ...Event) (all []string) {
		for _, ev := range evs {
			all = append(all, string(ev.encode()))
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
	got := recordsOf(eventsOf([][]string{text(first...), append(text(second...), "not json")}, st), st.Leader, at.Add(21*time.Second))
	want := []TermRecord{
		{Election: "e", Token: 40, Candidate: "c", From: at.Add(20 * time.Second), Current: true, Lasted: time.Second},
		{Election: "e", Token: 30, Candidate: "b", From: at.Add(6 * time.Second), Reason: ReasonVanished},
		{Election: "e", Token: 20, Candidate: "a", From: at, Until: at.Add(5 * time.Second), Reason: ReasonUnhealthy, Lasted: 5 * time.Second, Gap: time.Second},
		{Election: "e", Token: 10, Candidate: "old", Until: at.Add(-time.Second), Reason: ReasonShutdown, Gap: time.Second},
	}
	if g, w := asJSON(t, got), asJSON(t, want); g != w {
		t.Errorf("got\n%s\nwant\n%s", g, w)
	}
}

// How long a term lasted, and how long there was no leader after it, where its end was reported.
func TestTimeBetweenTerms(t *testing.T) {
	at := time.Date(2026, 11, 21, 7, 0, 0, 0, time.UTC)
	const s = time.Second
	elected := func(token uint64, after time.Duration) Event {
		return Event{Version: 1, Kind: EventElected, Election: "e", Token: token, Time: at.Add(after)}
	}
	released := func(after, held time.Duration) Event {
		return Event{Version: 1, Kind: EventReleased, Election: "e", Token: 1, Time: at.Add(after), Held: held, Reason: ReasonResigned}
	}
	for name, c := range map[string]struct {
		events      []Event
		lasted, gap time.Duration
	}{
		"a reported end":        {[]Event{elected(1, 0), released(20*s, 20*s), elected(2, 25*s)}, 20 * s, 5 * s},
		"vanished":              {[]Event{elected(1, 0), elected(2, 30*s)}, 0, 0},
		"it outlived its lease": {[]Event{elected(1, 0), released(40*s, 20*s), elected(2, 22*s)}, 20 * s, 2 * s},
	} {
		for i, r := range recordsOf(c.events, &Leader{Token: 2}, at.Add(100*s)) {
			if i == 1 && (r.Lasted != c.lasted || r.Gap != c.gap) {
				t.Errorf("%s: %+v", name, r)
			}
		}
	}
	seen := Status{Election: "e", Nodes: []NodeStatus{{past: []string{string(elected(1, 0).encode())}}}}
	if r, _ := seen.terms(ErrUnreachable, 9); len(r) != 1 || r[0].Reason != "" {
		t.Errorf("while it is not known who leads, the last one may: %+v", r)
	}
}

// Operators' actions, in any order and from several nodes, with what anybody may have forged.
func TestPausesOf(t *testing.T) {
	at := time.Unix(1e9, 0)
	act := func(kind string, by string, after, length time.Duration) Event {
		return Event{Kind: kind, Election: "e", By: by, Time: at.Add(after), For: length}
	}
	got := pausesOf([]Event{
		act(eventResumed, "bob", 30*time.Second, 0),
		act(eventPaused, "ann", 10*time.Second, time.Hour),
		act(eventPaused, "cyd", 20*time.Second, 0), // replaces ann's
		act(eventPaused, "dan", 40*time.Second, 5*time.Second),
		act(eventPaused, "eve", 50*time.Second, -time.Hour),
		act(eventResumed, "fay", 5*time.Second, 0), // of one that was trimmed
		act(EventElected, "gil", 51*time.Second, 0),
	}, at.Add(time.Minute))
	text := ""
	for _, p := range got {
		text += fmt.Sprintf("%s %v", p.By, p.From.Sub(at))
		if !p.Until.IsZero() {
			text += fmt.Sprintf("-%v", p.Until.Sub(at))
		}
		text += " " + p.EndedBy + "\n"
	}
	if want := "eve 50s \ndan 40s-45s \ncyd 20s-30s bob\nann 10s-20s cyd\n"; text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.MarshalIndent(v, "", " ")
	servertest.Must(t, err)
	return string(b)
}

// Whoever has access to Redis can write to the channels and to the history.
// These are all the places that read from there, beside parseEvent.

// FuzzHistory reads entries, one a line, of two nodes.
func FuzzHistory(f *testing.F) {
	ev := sampleEvent()
	f.Add(string(ev.encode()), `{"v":1,"kind":"elected","election":"orders","token":9007199254740991,"time":"2026-11-01T02:03:03Z"}`, uint64(0))
	f.Add("{}\n\nnull", `{"v":1,"kind":"released","election":"orders","token":3,"time":"0001-01-01T00:00:00Z"}`, uint64(5))
	f.Fuzz(func(t *testing.T, a, b string, fence uint64) {
		st := Status{Election: "orders", Nodes: []NodeStatus{{Fence: fence}}, Leader: &Leader{Token: 7}}
		records := recordsOf(eventsOf([][]string{strings.Split(a, "\n"), strings.Split(b, "\n")}, st), st.Leader, time.Now())
		for i, r := range records {
			if fence > 0 && r.Token > fence {
				t.Fatalf("a term that no node has granted: %+v", r)
			}
			if i > 0 && compareIDs(r.id, records[i-1].id) >= 0 { // two terms of one token are two candidates
				t.Fatalf("not newest first, or twice: %+v", records)
			}
		}
	})
}
