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
	lines := (&output.Printer{Width: 80}).Table(historyTable(history{Terms: []elector.TermRecord{
		{Token: 1795264213744, Candidate: strings.Repeat("x", 40), Reason: elector.ReasonUnhealthy, From: time.Unix(1e9, 0), Lasted: time.Hour, Gap: time.Hour},
	}}, false))
	if !strings.Contains(lines[1], "x..x") {
		t.Errorf("the name is not cut:\n%s", lines)
	}
	for _, line := range lines {
		if n := utf8.RuneCountInString(line); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// The last terms are shown with the pauses since the first of them, and one that lasts whenever it began.
func TestHistoryKeepsAPauseThatLasts(t *testing.T) {
	at := time.Unix(1e9, 0)
	all := history{
		Pauses: []elector.PauseRecord{
			{By: "a", From: at.Add(time.Minute), Until: at.Add(2 * time.Minute)}, {By: "b", From: at.Add(-time.Minute), Until: at.Add(-time.Second)}, {By: "c", From: at.Add(-time.Hour)},
		},
	}
	if all.since(at); len(all.Pauses) != 2 || all.Pauses[0].By != "a" || all.Pauses[1].By != "c" {
		t.Errorf("%+v", all)
	}
}
