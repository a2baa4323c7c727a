package main

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
)

func TestHistoryFitsATerminal(t *testing.T) {
	lines := (&output.Printer{Width: 80}).Table(timelineTable(elector.Timeline{Terms: []elector.TermRecord{
		{Token: 1795264213744, Candidate: strings.Repeat("x", 40), Reason: elector.ReasonUnhealthy, From: time.Unix(1e9, 0), Lasted: time.Hour, Gap: time.Hour},
	}}, false, false))
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
	}}, false, false)), "\n")
	if strings.Count(got, "OVERLAP") != 1 || !strings.Contains(got, "same time as token 1, 2, 3, 4, 5, and 2 more") {
		t.Errorf("got\n%s", got)
	}
}
