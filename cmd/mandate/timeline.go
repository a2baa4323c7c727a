package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
)

// historyFlags are the flags of mandate history.
type historyFlags struct {
	format format
	count  int
	all    bool
	since  time.Time
}

// timelineRow is one row of a timeline, with the notes below it.
type timelineRow struct {
	at       time.Time // by which the rows are sorted
	color    output.Color
	election string
	token    string
	leader   string
	from     time.Time
	lasted   string
	end      string
	gap      string
	until    time.Time
	address  string
	notes    []note
}

type note struct {
	color output.Color
	text  string
}

// timelineTable has the vacancies first, then all other entries, newest first. A table of several
// elections names each of them, shows tokens only if it is wide, and has the vacancies of elections
// that seem to be unused last.
func timelineTable(t elector.Timeline, h historyFlags) *output.Table {
	several, wide := h.all, h.format.wide
	var entries []timelineRow
	for _, term := range t.Terms {
		entries = append(entries, termEntry(term))
	}
	for _, p := range t.Pauses {
		entries = append(entries, pauseEntry(p))
	}
	slices.SortStableFunc(entries, func(a, b timelineRow) int { return b.at.Compare(a.at) })
	var vacant, last []timelineRow
	for _, v := range t.Vacancies {
		if several && unused(v) {
			last = append(last, vacancyEntry(v))
		} else {
			vacant = append(vacant, vacancyEntry(v))
		}
	}
	entries = slices.Concat(vacant, entries, last)
	zone, layout := zoneOf(entries)
	if wide {
		zone, layout = "", time.RFC3339Nano
	}
	table := output.NewTable(output.Column{Title: "ELECTION", Name: true}, output.Column{Title: "TOKEN"}, output.Column{Title: "LEADER", Name: true},
		output.Column{Title: "FROM" + zone}, output.Column{Title: "FOR"}, output.Column{Title: "END"}, output.Column{Title: "NEXT AFTER"},
		output.Column{Title: "UNTIL"}, output.Column{Title: "ADDRESS"})
	for _, e := range entries {
		if !several {
			e.election = ""
		} else if !wide {
			e.token = ""
		}
		from := "-"
		if !e.from.IsZero() {
			from = e.from.Local().Format(layout)
		}
		cells := []string{e.election, e.token, e.leader, from, e.lasted, e.end, e.gap}
		if wide {
			cells = append(cells, exact(e.until), e.address)
		}
		table.Row(e.color, cells...)
		for _, n := range e.notes {
			table.Note(n.color, n.text)
		}
	}
	return table
}

func termEntry(term elector.TermRecord) timelineRow {
	e := timelineRow{
		at: term.Began(), election: term.Election, token: fmt.Sprint(term.Token), leader: term.Candidate, from: term.From, until: term.Until,
		address: term.Advertise, lasted: "-", end: termEnd(term),
	}
	switch {
	case len(term.Overlaps) > 0:
		e.color = output.Red
	case term.Current:
		e.color = output.Green
	case !term.Reason.Wanted():
		e.color = output.Yellow
	}
	switch {
	case term.Lasted != 0:
		e.lasted = output.Brief(term.Lasted)
	case term.MaxLasted != 0:
		e.lasted = atMost + output.Brief(term.MaxLasted)
	}
	switch {
	case term.Gap != 0:
		e.gap = output.Brief(term.Gap)
	case term.MaxGap != 0:
		e.gap = atMost + output.Brief(term.MaxGap)
	}
	if len(term.Overlaps) > 0 {
		e.notes = append(e.notes, note{output.Red, "OVERLAP: led at the same time as token " + overlapping(term.Overlaps)})
	}
	e.notes = append(e.notes, note{output.Dim, term.Detail})
	return e
}

// atMost marks an upper bound.
const atMost = "<= "

// unused reports whether an election has had no leader for so long that it seems to be out of use.
func unused(v elector.Vacancy) bool { return !v.Paused && cmp.Or(v.For, v.MaxFor) > missed }

func vacancyEntry(v elector.Vacancy) timelineRow {
	e := timelineRow{color: output.Red, election: v.Election, token: "-", leader: "no leader", from: v.Since, lasted: output.Brief(v.For), end: "vacant"}
	if v.Since.IsZero() {
		e.lasted = atMost + output.Brief(v.MaxFor)
	}
	if v.Paused {
		e.color, e.end = output.Yellow, "paused"
	}
	why := fmt.Sprintf("the last leader, %s, ended: %s", v.After.Candidate, cmp.Or(string(v.After.Reason), "?"))
	if v.After.Reason == elector.ReasonVanished {
		why = fmt.Sprintf("the last leader, %s, vanished: it never reported its end", v.After.Candidate)
	}
	if v.After.Detail != "" {
		why += ": " + v.After.Detail
	}
	e.notes = []note{{output.Dim, why}}
	return e
}

func pauseEntry(p elector.PauseRecord) timelineRow {
	e := timelineRow{at: p.From, color: output.Dim, election: p.Election, token: "-", leader: "-", from: p.From, until: p.Until, lasted: "-", end: "pause"}
	if !p.Until.IsZero() {
		e.lasted = output.Brief(p.Until.Sub(p.From))
	}
	text := []string{"paused"}
	if p.For > 0 {
		text[0] += " for " + output.Age(p.For)
	}
	if p.By != "" {
		text[0] += " by " + p.By
	}
	if p.Reason != "" {
		text[0] += ": " + p.Reason
	}
	if p.EndedBy != "" {
		text = append(text, "ended by "+p.EndedBy)
	}
	if p.Until.IsZero() {
		text = append(text, "it lasts")
	}
	e.notes = []note{{output.Dim, strings.Join(text, "; ")}}
	return e
}

// zoneOf returns the zone of all times, for the title of their column, and a layout for them. If
// the times are in different zones (daylight saving), the layout has the zone and zone is empty.
func zoneOf(entries []timelineRow) (zone, layout string) {
	for _, e := range entries {
		if e.from.IsZero() {
			continue
		}
		name := " (" + e.from.Local().Format("MST") + ")"
		if zone != "" && zone != name {
			return "", time.DateTime + " MST"
		}
		zone = name
	}
	return zone, time.DateTime
}

// endUnreported is the detail of a term without a reason: its process answers, and has not reported
// the end.
const endUnreported = "its process answers, and has not reported how this term ended"

func termEnd(term elector.TermRecord) string {
	switch {
	case term.Current:
		return "leads"
	case term.Reason == "" && term.Detail == endUnreported:
		return "unreported"
	}
	return output.CutMiddle(cmp.Or(string(term.Reason), "?"), 20)
}

// overlapping lists only the first tokens: forged entries could name any number of them.
func overlapping(tokens []uint64) string {
	names := make([]string, len(tokens))
	for i, token := range tokens {
		names[i] = fmt.Sprint(token)
	}
	return output.List(names, 5)
}
