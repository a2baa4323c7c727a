package main

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/mandate-dev/mandate/elector"
)

// A script needs names that exist; a person, a table that fits the screen.
func TestColumnsAreCutOnATerminalOnly(t *testing.T) {
	long := strings.Repeat("x", 40)
	for terminal, want := range map[bool]string{true: "xxxx..xxxx", false: long} {
		column := (&paper{terminal: terminal}).column(10, []string{"a", long})
		if got := column(long); got != want {
			t.Errorf("terminal %v: %q, want %q", terminal, got, want)
		}
		if got := column("a"); len(got) != len(want) {
			t.Errorf("terminal %v: the column is not aligned: %q", terminal, got)
		}
	}
}

func TestHistoryFitsATerminal(t *testing.T) {
	var b strings.Builder
	historyTable(&paper{terminal: true}, &b, []elector.TermRecord{
		{Token: 1795264213744, Candidate: strings.Repeat("x", 40), Reason: elector.ReasonUnhealthy, From: time.Unix(1e9, 0), Lasted: time.Hour, Gap: time.Hour},
	})
	if !strings.Contains(b.String(), "x..x") {
		t.Errorf("the name is not cut:\n%s", &b)
	}
	for line := range strings.Lines(b.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// Two that led at once are the worst that a history can show.
func TestHistoryNamesOverlaps(t *testing.T) {
	var b strings.Builder
	historyTable(&paper{terminal: true}, &b, []elector.TermRecord{
		{Token: 9, Candidate: "b", From: time.Unix(1e9, 0), Current: true, Overlaps: []uint64{1, 2, 3, 4, 5, 6, 7}},
		{Token: 8, Candidate: "a", From: time.Unix(1e9, 0), Reason: elector.ReasonLost},
	})
	if got := b.String(); strings.Count(got, "OVERLAP") != 1 || !strings.Contains(got, "same time as token 1, 2, 3, 4, 5, and 2 more") {
		t.Errorf("got\n%s", got)
	}
}
