package elector

import (
	"slices"
	"time"
)

// VersionRecord is an operator's AllowOlder or RefuseOlder, by the clock of that host.
type VersionRecord struct {
	Election string    `json:"election"`
	By       string    `json:"by,omitempty"` // empty: a program that named no one
	Reason   string    `json:"reason,omitempty"`
	At       time.Time `json:"at"`
	Highest  string    `json:"highest,omitempty"` // the highest version that had led
	Lowest   string    `json:"lowest,omitempty"`  // that may lead again; AnyVersion: all; empty: none that is older
}

// versionsOf are operators' reports about versions, newest first.
func versionsOf(events []Event) (all []VersionRecord) {
	for _, ev := range events {
		if ev.Kind == eventOlderAllowed || ev.Kind == eventOlderRefused {
			all = append(all, VersionRecord{
				Election: ev.Election, By: ev.By, Reason: ev.Detail, At: ev.Time, Highest: ev.Highest, Lowest: ev.Lowest,
			})
		}
	}
	slices.SortStableFunc(all, func(a, b VersionRecord) int { return b.At.Compare(a.At) })
	return all
}
