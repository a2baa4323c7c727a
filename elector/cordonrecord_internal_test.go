package elector

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/registry"
)

// What a history shows of cordons: which end belongs to which begin, that another cordon takes
// the place of one, and, whatever was reported, which are in force.
func TestCordonRecordsOf(t *testing.T) {
	at := time.Date(2026, 11, 21, 7, 0, 0, 0, time.UTC)
	report := func(kind EventKind, id, by string, after int) Event {
		return Event{Version: 1, Kind: kind, Candidate: id, By: by, Time: at.Add(time.Duration(after) * time.Second)}
	}
	cordon := func(id, by string, after int) Cordon {
		return Cordon{ID: id, By: by, Since: at.Add(time.Duration(after) * time.Second)}
	}
	show := func(r CordonRecord) string {
		moment := func(m time.Time) string {
			if m.IsZero() {
				return "?"
			}
			return fmt.Sprint(int(m.Sub(at).Seconds()))
		}
		text := fmt.Sprintf("%s by %s %s-%s %s", r.ID, r.By, moment(r.From), moment(r.Until), r.EndedBy)
		if r.Drain {
			text += " drain"
		}
		if r.Current {
			text += " now"
		}
		return text
	}
	for name, c := range map[string]struct {
		events  []Event
		inForce []Cordon
		unknown bool // what is in force
		want    []string
	}{
		"nothing":      {},
		"in force":     {events: []Event{report(eventCordoned, "a", "ann", 1)}, inForce: []Cordon{cordon("a", "ann", 1)}, want: []string{"a by ann 1-?  now"}},
		"ended":        {events: []Event{report(eventDrained, "a", "ann", 1), report(eventUncordoned, "a", "bob", 5)}, want: []string{"a by ann 1-5 bob drain"}},
		"out of order": {events: []Event{report(eventUncordoned, "a", "bob", 5), report(eventCordoned, "a", "ann", 1)}, want: []string{"a by ann 1-5 bob"}},
		"drained after it was cordoned": {
			events:  []Event{report(eventCordoned, "a", "ann", 1), report(eventDrained, "a", "bob", 3)},
			inForce: []Cordon{cordon("a", "bob", 3)}, want: []string{"a by bob 3-?  drain now", "a by ann 1-3 bob"},
		},
		"of several": {
			events:  []Event{report(eventCordoned, "a", "ann", 1), report(eventCordoned, "b", "ann", 2), report(eventUncordoned, "a", "ann", 3)},
			inForce: []Cordon{cordon("b", "ann", 2)}, want: []string{"b by ann 2-?  now", "a by ann 1-3 ann"},
		},
		"its end was not recorded":   {events: []Event{report(eventCordoned, "a", "ann", 1)}, want: []string{"a by ann 1-? "}},
		"its begin was not recorded": {events: []Event{report(eventUncordoned, "a", "bob", 5)}, want: []string{"a by  ?-5 bob"}},
		"nothing was recorded":       {inForce: []Cordon{cordon("a", "ann", 1)}, want: []string{"a by ann 1-?  now"}},
		"its successor was not recorded": {
			events: []Event{report(eventCordoned, "a", "ann", 1)}, inForce: []Cordon{cordon("a", "bob", 4)},
			want: []string{"a by bob 4-?  now", "a by ann 1-4 bob"},
		},
		"what is in force is not known": {events: []Event{report(eventCordoned, "a", "ann", 1), report(eventCordoned, "a", "ann", 2)}, unknown: true, want: []string{"a by ann 2-?  now", "a by ann 1-2 ann"}},
	} {
		t.Run(name, func(t *testing.T) {
			var entries []registry.Entry // newest first
			for _, ev := range c.events {
				entries = append([]registry.Entry{{Event: string(ev.encode())}}, entries...)
			}
			for _, byNode := range [][][]registry.Entry{{entries}, {entries, nil, entries}} {
				var got []string
				for _, r := range cordonRecordsOf(cordonEventsOf(byNode), c.inForce, !c.unknown) {
					got = append(got, show(r))
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("%d nodes: %q, want %q", len(byNode), got, c.want)
				}
			}
		})
	}
}

func TestCordonEventsOfOthersAreSkipped(t *testing.T) {
	for name, entry := range map[string]string{
		"empty":            "",
		"no JSON":          "hello",
		"too long":         `{"v":1,"kind":"cordoned","candidate":"a","time":"2026-11-21T07:00:00Z","detail":"` + strings.Repeat("x", 1<<20) + `"}`,
		"no version":       `{"kind":"cordoned","candidate":"a","time":"2026-11-21T07:00:00Z"}`,
		"no id":            `{"v":1,"kind":"cordoned","time":"2026-11-21T07:00:00Z"}`,
		"an id of no one":  `{"v":1,"kind":"cordoned","candidate":"a b","time":"2026-11-21T07:00:00Z"}`,
		"no time":          `{"v":1,"kind":"cordoned","candidate":"a"}`,
		"another kind":     `{"v":1,"kind":"paused","election":"e","time":"2026-11-21T07:00:00Z"}`,
		"a later version":  `{"v":2,"kind":"quarantined","candidate":"a","time":"2026-11-21T07:00:00Z"}`,
		"a term":           `{"v":1,"kind":"elected","election":"e","candidate":"a","token":7,"time":"2026-11-21T07:00:00Z"}`,
		"a year too large": `{"v":1,"kind":"cordoned","candidate":"a","time":"99999-11-21T07:00:00Z"}`,
	} {
		if got := cordonEventsOf([][]registry.Entry{{{Event: entry}}}); len(got) != 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	long := `{"v":1,"kind":"cordoned","candidate":"a","by":"` + strings.Repeat("y", 2000) + `","time":"2026-11-21T07:00:00Z"}`
	if got := cordonEventsOf([][]registry.Entry{{{Event: long}}}); len(got) != 1 || len(got[0].By) > protocol.MaxReason+10 {
		t.Errorf("%+v", got)
	}
}

func TestCordonsSince(t *testing.T) {
	at := time.Unix(1e9, 0)
	all := []CordonRecord{
		{ID: "begun later", From: at.Add(time.Hour)},
		{ID: "in force", From: at.Add(-time.Hour), Current: true},
		{ID: "ended later", From: at.Add(-time.Hour), Until: at.Add(time.Second)},
		{ID: "ended before", From: at.Add(-time.Hour), Until: at.Add(-time.Second)},
		{ID: "ended unrecorded", From: at.Add(-time.Hour)},
	}
	if got := cordonsSince(all, at); len(got) != 3 || got[2].ID != "ended later" {
		t.Errorf("%+v", got)
	}
	if got := cordonsSince(all, time.Time{}); len(got) != len(all) {
		t.Errorf("%+v", got)
	}
}
