package main

import (
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

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
