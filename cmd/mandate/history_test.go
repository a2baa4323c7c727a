package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
)

func TestHistoryFitsATerminal(t *testing.T) {
	lines := (&output.Printer{Width: 80}).Table(timelineTable(elector.Timeline{Terms: []elector.TermRecord{
		{Token: 1795264213744, Candidate: strings.Repeat("x", 40), Reason: elector.ReasonUnhealthy, From: time.Unix(1e9, 0), Lasted: time.Hour, Gap: time.Hour},
	}}, historyFlags{}))
	if !strings.Contains(lines[1], "x..x") {
		t.Errorf("the name is not cut:\n%s", lines)
	}
	for _, line := range lines {
		if n := utf8.RuneCountInString(line); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// Two that led at once are the worst that a history can show.
func TestHistoryNamesOverlaps(t *testing.T) {
	got := strings.Join((&output.Printer{}).Table(timelineTable(elector.Timeline{Terms: []elector.TermRecord{
		{Token: 9, Candidate: "b", From: time.Unix(1e9, 0), Current: true, Overlaps: []uint64{1, 2, 3, 4, 5, 6, 7}},
		{Token: 8, Candidate: "a", From: time.Unix(1e9, 0), Reason: elector.ReasonLost},
	}}, historyFlags{})), "\n")
	if strings.Count(got, "OVERLAP") != 1 || !strings.Contains(got, "same time as token 1, 2, 3, 4, 5, and 2 more") {
		t.Errorf("got\n%s", got)
	}
}

// The summary of many elections names also those that had no leader in all that time: of a
// total outage there is no term. One that was paused throughout was not led 100 % either.
func TestHistorySumsUpElectionsWithoutATerm(t *testing.T) {
	at := time.Unix(1e9, 0)
	sum := func(name string, without, paused time.Duration) elector.Availability {
		return elector.Availability{Election: name, From: at, Until: at.Add(12 * time.Hour), Leaderless: without, MaxLeaderless: without, Paused: paused, MaxPaused: paused}
	}
	got := strings.Join(availabilityLines(&output.Printer{}, elector.Timeline{
		Terms:        []elector.TermRecord{{Election: "led", Token: 1, From: at, Current: true}},
		Availability: []elector.Availability{sum("led", 0, 0), sum("paused", 0, 12*time.Hour), sum("vacant", 12*time.Hour, 0)},
	}, historyFlags{all: true, since: at}), "\n")
	for _, want := range []string{"\nvacant: leaderless 12h00m of 12h00m, 0.0 % led,", "\npaused: paused without a leader for all of 12h00m, since "} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if !strings.HasPrefix(got, "\nall 3 elections: leaderless 12h00m of 36h00m, 50.0 % led; paused without a leader for another 12h00m\nvacant: ") || strings.Contains(got, "\nled:") {
		t.Errorf("not all in one line, and then the worst first:\n%s", got)
	}
}

// Of the last terms of several elections a pause that lasts is shown, whenever it began.
func TestHistoryKeepsAPauseThatLasts(t *testing.T) {
	at := time.Unix(1e9, 0)
	got := newest(elector.Timeline{
		Terms: []elector.TermRecord{{Election: "a", From: at}, {Election: "b", From: at.Add(-time.Hour)}},
		Pauses: []elector.PauseRecord{
			{Election: "a", From: at.Add(time.Minute), Until: at.Add(2 * time.Minute)},
			{Election: "b", From: at.Add(-time.Minute), Until: at},
			{Election: "c", From: at.Add(-time.Hour)},
		},
	}, 1)
	if len(got.Terms) != 1 || len(got.Pauses) != 2 || got.Pauses[0].Election != "a" || got.Pauses[1].Election != "c" {
		t.Errorf("%+v", got)
	}
}

// In a time line of all elections, outages are the first, and those that have been without a
// leader for days the last: most are no longer used.
func TestHistoryOfAllEndsWithUnusedElections(t *testing.T) {
	now := time.Unix(1e9, 0)
	vacant := func(name string, length time.Duration) elector.Vacancy {
		return elector.Vacancy{Election: name, Since: now.Add(-length), For: length, After: elector.TermRecord{Candidate: "x", Reason: elector.ReasonShutdown}}
	}
	line := elector.Timeline{
		Terms:     []elector.TermRecord{{Election: "led", Candidate: "y", From: now.Add(-time.Hour), Current: true}},
		Vacancies: []elector.Vacancy{vacant("outage", 20*time.Hour), vacant("unused", 72*time.Hour)},
		Availability: []elector.Availability{
			{Election: "led", From: now.Add(-12 * time.Hour), Until: now}, {Election: "outage", From: now.Add(-12 * time.Hour), Until: now, MaxLeaderless: 12 * time.Hour},
			{Election: "unused", From: now.Add(-12 * time.Hour), Until: now, MaxLeaderless: 12 * time.Hour},
		},
	}
	h := historyFlags{all: true, since: now.Add(-12 * time.Hour)}
	for want, lines := range map[string][]string{
		"outage led unused": (&output.Printer{}).Table(timelineTable(line, h))[1:],
		"all outage unused": availabilityLines(&output.Printer{}, line, h)[1:], // what was led throughout is in the sum of all
	} {
		var names []string
		for _, text := range lines {
			if name, _, _ := strings.Cut(strings.Fields(text)[0], ":"); !strings.HasPrefix(text, " ") {
				names = append(names, name)
			}
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s:\n%s", got, strings.Join(lines, "\n"))
		}
	}
}

// A leader whose process answers did not vanish: whoever reads that looks for a machine that died.
func TestHistoryNamesUnreportedEnds(t *testing.T) {
	server := miniredis.RunT(t)
	url := "redis://" + server.Addr()
	q, err := elector.Open(url)
	if err != nil {
		t.Fatal(err)
	}
	e, err := elector.New(q, elector.Config{Election: "orders", ID: "a", Lease: 2 * time.Second, Cooldown: -1, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done, terms := make(chan error, 1), make(chan *elector.Term, 9)
	go func() {
		done <- e.Run(ctx, func(ctx context.Context, term *elector.Term) error { terms <- term; <-ctx.Done(); return nil })
	}()
	defer func() { stop(); <-done; _ = q.Close() }()
	history := func() string {
		var o, errs captured
		execute(t.Context(), []string{"history", "orders", "--redis", url}, &o, &errs)
		return o.String() + errs.String()
	}
	first := <-terms
	time.Sleep(100 * time.Millisecond) // the answer to the roll call may take as long, so a term of that age would not be told from one before
	first.Resign()
	(<-terms).Resign()
	<-terms
	err = poll(func() error {
		if out := history(); strings.Count(out, "resigned") != 2 || !strings.Contains(out, "leads") {
			return errors.New(out)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	stream, err := server.Stream("mandate:{orders}:history")
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { _ = rdb.Close() }()
	for _, entry := range stream[3:] { // of the second term
		if strings.Contains(strings.Join(entry.Values, " "), "resigned") {
			rdb.XDel(t.Context(), "mandate:{orders}:history", entry.ID)
		}
	}
	if out := history(); !strings.Contains(out, "unreported") || !strings.Contains(out, endUnreported) || strings.Contains(out, "vanished") {
		t.Errorf("a lives:\n%s", out)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	done <- nil
	if out := history(); !strings.Contains(out, "vanished") {
		t.Errorf("a is gone:\n%s", out)
	}
}
