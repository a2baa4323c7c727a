package elector

import (
	"slices"
	"time"
)

// PauseRecord is a pause as operators reported it, by their hosts' clocks.
type PauseRecord struct {
	Election string        `json:"election"`
	By       string        `json:"by,omitempty"` // who paused it; empty: a program that named no one
	Reason   string        `json:"reason,omitempty"`
	From     time.Time     `json:"from"`
	Until    time.Time     `json:"until,omitzero"`          // zero: it is still in force
	EndedBy  string        `json:"ended_by,omitempty"`      // who resumed it, or paused it anew
	For      time.Duration `json:"-" ms:"for_ms,omitempty"` // after which it ends automatically; 0: never
}

// pausesOf turns operators' reports into pauses, newest first. A pause ends when an operator
// resumes the election, when its time has passed, or when another pause takes its place.
func pausesOf(events []Event, now time.Time) (pauses []PauseRecord) {
	var actions []Event
	for _, ev := range events {
		if ev.Kind == eventPaused || ev.Kind == eventResumed {
			actions = append(actions, ev)
		}
	}
	slices.SortStableFunc(actions, func(a, b Event) int { return a.Time.Compare(b.Time) })
	for _, ev := range actions {
		if i := len(pauses) - 1; i >= 0 {
			if last := &pauses[i]; last.Until.IsZero() || last.Until.After(ev.Time) {
				last.Until, last.EndedBy = ev.Time, ev.By
			}
		}
		if ev.Kind == eventResumed {
			continue
		}
		p := PauseRecord{Election: ev.Election, By: ev.By, Reason: ev.Detail, From: ev.Time, For: max(0, ev.For)}
		if end := p.From.Add(p.For); p.For > 0 && !end.After(now) {
			p.Until = end
		}
		pauses = append(pauses, p)
	}
	slices.Reverse(pauses)
	return pauses
}
