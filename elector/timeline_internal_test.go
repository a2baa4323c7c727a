package elector

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/registry"
)

// What a history shows of the time without a leader: exact where an end was reported, a bound
// where it was not, pauses apart, and nothing about the time of which nothing is recorded.
func TestTimelineOf(t *testing.T) {
	at := time.Date(2026, 11, 21, 7, 0, 0, 0, time.UTC)
	const s = time.Second
	event := func(kind EventKind, token uint64, after time.Duration, change ...func(*Event)) Event {
		ev := Event{Version: 1, Kind: kind, Election: "e", Token: token, Time: at.Add(after)}
		if token > 0 {
			ev.Candidate = fmt.Sprintf("c%d", token)
		}
		for _, c := range change {
			c(&ev)
		}
		return ev
	}
	ended := func(token uint64, after time.Duration) Event {
		return event(EventReleased, token, after, func(ev *Event) { ev.Reason = ReasonResigned })
	}
	elected := func(token uint64, after time.Duration) Event { return event(EventElected, token, after) }
	seen := func(vacant time.Duration) func(*Event) { return func(ev *Event) { ev.Vacant = vacant } }
	type vacancy struct{ since, max time.Duration }
	for name, c := range map[string]struct {
		events  []Event
		leader  uint64 // 0: none
		unknown bool   // who leads
		paused  bool
		since   time.Duration
		n       int // 0: all

		terms             int
		gap, most         time.Duration // of the second newest term
		vacant            *vacancy
		span              time.Duration
		less, atMost, pau time.Duration
		maxPaused         time.Duration // 0: pau
		pauses            int           // 0: any
	}{
		"nothing": {},
		"one that leads": {
			events: []Event{elected(1, 0)}, leader: 1, terms: 1, span: 100 * s,
		},
		"a reported end": {
			events: []Event{elected(1, 0), ended(1, 20*s), elected(2, 25*s)}, leader: 2,
			terms: 2, gap: 5 * s, span: 100 * s, less: 5 * s, atMost: 5 * s,
		},
		"vanished, and the next had seen its lease": {
			events: []Event{elected(1, 0), event(EventElected, 2, 30*s, seen(5*s))}, leader: 2,
			terms: 2, most: 5 * s, span: 100 * s, atMost: 5 * s,
		},
		"vanished, and the next had seen nothing of it": {
			events: []Event{elected(1, 0), elected(2, 30*s)}, leader: 2,
			terms: 2, most: 30 * s, span: 100 * s, atMost: 30 * s,
		},
		"vanished sooner than the lease that was seen": {
			events: []Event{elected(1, 0), event(EventElected, 2, 3*s, seen(5*s))}, leader: 2,
			terms: 2, most: 3 * s, span: 100 * s, atMost: 3 * s,
		},
		"it outlived its lease": { // suspended: it reported its end when it woke up
			events: []Event{elected(1, 0), event(EventReleased, 1, 40*s, func(ev *Event) { ev.Reason, ev.Held = ReasonExpired, 20*s }), elected(2, 22*s)}, leader: 2,
			terms: 2, gap: -18 * s, span: 100 * s, less: 2 * s, atMost: 2 * s,
		},
		"vacant": {
			events: []Event{elected(1, 0), ended(1, 88*s)},
			terms:  1, vacant: &vacancy{since: 88 * s}, span: 100 * s, less: 12 * s, atMost: 12 * s,
		},
		"vacant since one vanished": {
			events: []Event{elected(1, 0), ended(1, 20*s), elected(2, 20*s)},
			terms:  2, vacant: &vacancy{max: 80 * s}, span: 100 * s, atMost: 80 * s,
		},
		"who leads is not known": {
			events: []Event{elected(1, 0), ended(1, 20*s), elected(2, 25*s)}, unknown: true,
			terms: 2, gap: 5 * s, span: 25 * s, less: 5 * s, atMost: 5 * s,
		},
		"a pause": { // 10 s of the 30 without a leader
			events: []Event{elected(1, 0), event(eventPaused, 0, 10*s), ended(1, 20*s), event(eventResumed, 0, 30*s), elected(2, 50*s)}, leader: 2,
			terms: 2, gap: 30 * s, span: 100 * s, less: 20 * s, atMost: 20 * s, pau: 10 * s,
		},
		"a pause that ended automatically": {
			events: []Event{elected(1, 0), ended(1, 20*s), event(eventPaused, 0, 10*s, func(ev *Event) { ev.For = 15 * s })},
			terms:  1, vacant: &vacancy{since: 20 * s}, span: 100 * s, less: 75 * s, atMost: 75 * s, pau: 5 * s,
		},
		"a pause that lasts": {
			events: []Event{elected(1, 0), ended(1, 20*s), event(eventPaused, 0, 10*s)}, paused: true,
			terms: 1, vacant: &vacancy{since: 20 * s}, span: 100 * s, pau: 80 * s,
		},
		"the beginning was trimmed": { // nothing is known of the time before the first report
			events: []Event{ended(1, 50*s), elected(2, 60*s)}, leader: 2,
			terms: 2, gap: 10 * s, span: 50 * s, less: 10 * s, atMost: 10 * s,
		},
		"fewer terms are wanted": {
			events: []Event{elected(1, 0), ended(1, 20*s), elected(2, 25*s), ended(2, 30*s), elected(3, 40*s)}, leader: 3, n: 2,
			terms: 2, gap: 10 * s, span: 75 * s, less: 10 * s, atMost: 10 * s,
		},
		"since a moment within a term": {
			events: []Event{elected(1, 0), ended(1, 20*s), elected(2, 25*s), ended(2, 30*s), elected(3, 40*s)}, leader: 3, since: 28 * s,
			terms: 2, gap: 10 * s, span: 72 * s, less: 10 * s, atMost: 10 * s,
		},
		"since a moment within the newest term": {
			events: []Event{elected(1, 0), ended(1, 20*s), elected(2, 25*s)}, leader: 2, since: 90 * s, terms: 1, span: 10 * s,
		},
		"vacant since before": {
			events: []Event{elected(1, 0), ended(1, 20*s)}, since: 90 * s,
			vacant: &vacancy{since: 20 * s}, span: 10 * s, less: 10 * s, atMost: 10 * s,
		},
		"since a moment in a gap": { // which began before it
			events: []Event{elected(1, 0), ended(1, 20*s), elected(2, 80*s)}, leader: 2, since: 30 * s,
			terms: 1, span: 70 * s, less: 50 * s, atMost: 50 * s,
		},
		"since a moment in a gap with a pause": {
			events: []Event{elected(1, 0), ended(1, 20*s), event(eventPaused, 0, 40*s), event(eventResumed, 0, 60*s), elected(2, 80*s)}, leader: 2, since: 30 * s,
			terms: 1, span: 70 * s, less: 30 * s, atMost: 30 * s, pau: 20 * s, pauses: 1,
		},
		"a pause while one led that vanished later": { // it may have led through the pause, or not
			events: []Event{elected(1, 0), event(eventPaused, 0, 20*s), event(eventResumed, 0, 60*s), elected(2, 80*s)}, leader: 2,
			terms: 2, most: 80 * s, span: 100 * s, atMost: 40 * s, maxPaused: 40 * s,
		},
		"pauses, and no term": {
			events: []Event{event(eventPaused, 0, 10*s), event(eventResumed, 0, 20*s), event(eventPaused, 0, 60*s), event(eventResumed, 0, 80*s)}, since: 50 * s, pauses: 1,
		},
		"since a moment in a gap of which only a bound is known": {
			events: []Event{elected(1, 0), elected(2, 30*s)}, leader: 2, since: 20 * s,
			terms: 2, most: 30 * s, span: 80 * s, atMost: 10 * s,
		},
		"two led at once": {
			events: []Event{elected(1, 0), elected(2, 10*s), ended(2, 30*s), ended(1, 40*s)},
			terms:  2, gap: -30 * s, vacant: &vacancy{since: 30 * s}, span: 100 * s, less: 60 * s, atMost: 60 * s,
		},
		"clocks that contradict each other": {
			events: []Event{elected(1, 50*s), elected(2, 40*s)}, leader: 2, terms: 2, span: 50 * s,
		},
		"a clock that is ahead": {
			events: []Event{elected(1, 150*s)}, leader: 1, terms: 1,
		},
		"the leader's report is under way": {
			events: []Event{elected(1, 0), ended(1, 90*s)}, leader: 2,
			terms: 1, span: 100 * s, atMost: 10 * s,
		},
	} {
		var entries []registry.Entry
		for _, ev := range c.events {
			entries = append(entries, registry.Entry{At: ev.Time, Event: string(ev.encode())})
		}
		st := Status{Election: "e", Paused: c.paused}
		if c.leader > 0 {
			st.Leader = &Leader{Token: c.leader}
		}
		since := at.Add(c.since)
		if c.since == 0 {
			since = time.Time{}
		}
		n := c.n
		if n == 0 {
			n = maxRecords
		}
		now := at.Add(100 * s)
		got := timelineOf(pastOf(st, !c.unknown, [][]registry.Entry{entries, entries}, nil, now), n, since, now)
		if len(got.Terms) != c.terms {
			t.Errorf("%s: %d terms: %s", name, len(got.Terms), lineOf(got))
			continue
		}
		if len(got.Terms) > 1 && (got.Terms[1].Gap != c.gap || got.Terms[1].MaxGap != c.most) {
			t.Errorf("%s: gap %v, at most %v", name, got.Terms[1].Gap, got.Terms[1].MaxGap)
		}
		if (len(got.Vacancies) == 1) != (c.vacant != nil) {
			t.Errorf("%s: vacancies %+v", name, got.Vacancies)
		} else if c.vacant != nil {
			v := got.Vacancies[0]
			if since, exact := v.Since.Sub(at), !v.Since.IsZero(); exact && (since != c.vacant.since || v.For != 100*s-since) || !exact && c.vacant.since > 0 || v.MaxFor != c.vacant.max || v.Paused != c.paused {
				t.Errorf("%s: %+v, want %+v", name, v, *c.vacant)
			}
		}
		if c.pauses > 0 && len(got.Pauses) != c.pauses {
			t.Errorf("%s: %d pauses: %s", name, len(got.Pauses), lineOf(got))
		}
		var a Availability
		if len(got.Availability) > 0 {
			if a = got.Availability[0]; a.Terms != c.terms {
				t.Errorf("%s: the sum is of %d terms", name, a.Terms)
			}
		}
		if want := max(c.pau, c.maxPaused); a.MaxPaused != want {
			t.Errorf("%s: paused for at most %v, want %v", name, a.MaxPaused, want)
		}
		if a.Until.Sub(a.From) != c.span || a.Leaderless != c.less || a.MaxLeaderless != c.atMost || a.Paused != c.pau {
			t.Errorf("%s: leaderless %v to %v of %v, %v paused; want %v to %v of %v, %v", name,
				a.Leaderless, a.MaxLeaderless, a.Until.Sub(a.From), a.Paused, c.less, c.atMost, c.span, c.pau)
		}
	}
}

func lineOf(t Timeline) string {
	b, err := json.Marshal(t)
	return fmt.Sprintf("%s %v", b, err)
}

func TestAvailabilityLed(t *testing.T) {
	at := time.Unix(1e9, 0)
	for _, c := range []struct {
		a           Availability
		least, most float64
	}{
		{Availability{From: at, Until: at.Add(100 * time.Second), Leaderless: 5 * time.Second, MaxLeaderless: 10 * time.Second}, 0.90, 0.95},
		{Availability{From: at, Until: at.Add(100 * time.Second), Leaderless: 5 * time.Second, MaxLeaderless: 5 * time.Second, Paused: 50 * time.Second, MaxPaused: 50 * time.Second}, 0.90, 0.90},
		{Availability{From: at, Until: at.Add(100 * time.Second), Leaderless: 10 * time.Second, MaxLeaderless: 20 * time.Second, MaxPaused: 50 * time.Second}, 0.60, 0.90},
		{Availability{From: at, Until: at.Add(time.Second), Paused: time.Second, MaxPaused: time.Second}, 1, 1},
		{Availability{}, 1, 1},
	} {
		if least, most := c.a.Led(); least != c.least || most != c.most {
			t.Errorf("%+v: %v to %v, want %v to %v", c.a, least, most, c.least, c.most)
		}
	}
}

// Operators' actions, in any order and from several nodes, with what anybody may have forged.
func TestPausesOf(t *testing.T) {
	at := time.Unix(1e9, 0)
	act := func(kind EventKind, by string, after, length time.Duration) Event {
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
