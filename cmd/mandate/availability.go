package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
)

// availabilityLines are the last lines of the history: for how long there was no leader.
func availabilityLines(p *output.Printer, t elector.Timeline, h historyFlags) []string {
	shown := slices.Clone(t.Availability)
	if h.all && h.since.IsZero() || len(shown) == 0 {
		return nil // each election begins at another time
	}
	last := map[string]int{}
	for _, v := range t.Vacancies {
		if unused(v) {
			last[v.Election] = 1
		}
	}
	slices.SortStableFunc(shown, func(a, b elector.Availability) int {
		return cmp.Or(cmp.Compare(last[a.Election], last[b.Election]), cmp.Compare(minLed(a), minLed(b)))
	})
	lines := []string{""}
	const maxLines = 10
	if h.all {
		lines = append(lines, sumOf(shown, last))
		shown = slices.DeleteFunc(shown, func(a elector.Availability) bool { return a.MaxLeaderless == 0 && a.MaxPaused == 0 })
	}
	for i, a := range shown {
		if i == maxLines {
			lines = append(lines, fmt.Sprintf("and %d more elections that were without a leader", len(shown)-maxLines))
			break
		}
		text := availability(a)
		if h.all {
			text = a.Election + ": " + text
		}
		switch {
		case h.since.IsZero() || !a.From.After(h.since):
		case a.Terms >= h.count:
			text += fmt.Sprintf(" (the latest %d terms)", a.Terms)
		default:
			text += " (nothing before that is recorded)"
		}
		if p.Width == 0 { // scripts read line by line
			lines = append(lines, output.Printable(text))
			continue
		}
		lines = append(lines, p.Wrap(text, 0)...)
	}
	return lines
}

// sumOf summarizes all elections in one line, except those that seem to be unused.
func sumOf(all []elector.Availability, unused map[string]int) string {
	var total elector.Availability // begins at the zero time: only durations matter
	n := 0
	for _, a := range all {
		if unused[a.Election] > 0 {
			continue
		}
		n++
		total.Until = total.Until.Add(a.Until.Sub(a.From))
		total.Leaderless += a.Leaderless
		total.MaxLeaderless += a.MaxLeaderless
		total.Paused += a.Paused
		total.MaxPaused += a.MaxPaused
	}
	text := "all " + counted(n, "election") + ": " + shares(total, "")
	if len(all) > n {
		text += fmt.Sprintf(" (without %d that seem unused)", len(all)-n)
	}
	return text
}

func counted(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

func minLed(a elector.Availability) float64 {
	led, _ := a.Led()
	return led
}

// availability describes an election's time with and without a leader.
func availability(a elector.Availability) string {
	return shares(a, ", since "+a.From.Local().Format(time.DateTime))
}

// shares describes how long there was a leader and how long not; since is appended.
func shares(a elector.Availability, since string) string {
	span := output.Brief(a.Until.Sub(a.From))
	if a.MaxPaused > 0 && a.MaxPaused >= a.Until.Sub(a.From) { // perhaps there was no leader at any time
		part := "all"
		if a.Paused != a.MaxPaused {
			part = atMost + span
		}
		return fmt.Sprintf("paused without a leader for %s of %s%s", part, span, since)
	}
	least, _ := a.Led()
	without, led := output.Brief(a.MaxLeaderless), percent(least)+" led"
	switch {
	case a.MaxLeaderless == 0:
		without = "0s"
	case a.MaxLeaderless != a.Leaderless:
		without, led = atMost+without, ">= "+led
	}
	text := fmt.Sprintf("leaderless %s of %s, %s%s", without, span, led, since)
	if a.MaxPaused > 0 {
		paused := output.Brief(a.MaxPaused)
		if a.Paused != a.MaxPaused {
			paused = atMost + paused
		}
		text += "; paused without a leader for another " + paused
	}
	return text
}

// percent never rounds up to 100, because that would hide an outage.
func percent(part float64) string {
	switch p := 100 * part; {
	case part >= 1:
		return "100 %"
	case p >= 99.9:
		return fmt.Sprintf("%.3f %%", min(p, 99.999))
	default:
		return fmt.Sprintf("%.1f %%", p)
	}
}
