package quorum

import (
	"strconv"
	"testing"
	"time"
)

// A report that a node did not record is recorded when it answers the next request after a
// while; it is no news by then: nothing is published again.
func TestReportIsRecordedLater(t *testing.T) {
	for _, fault := range []string{"OOM", "away"} {
		t.Run(fault, func(t *testing.T) {
			atThePolls(t, 1, func(t *testing.T, p *polls) {
				a := p.voter("a")
				events := p.messages(0, p.keys.Events, 1)
				if fault == "OOM" {
					p.refuse(0, "XADD", "OOM")
				} else {
					p.refuse(0, "EVALSHA", "LOADING")
				}
				for _, event := range []string{"one", "two"} {
					a.Announce(Report{Event: []byte(event), Head: "elected 7  "})
				}
				a.WaitIdle(time.Minute)
				for range 3 { // while it goes on
					time.Sleep(time.Second)
					a.Claim(t.Context(), 1, nil)
					a.WaitIdle(time.Minute)
				}
				p.refuse(0, "", "")
				time.Sleep(time.Minute)
				for range 3 {
					a.Claim(t.Context(), 1, nil)
					a.WaitIdle(time.Minute)
				}
				entries, _ := p.redis[0].Stream(p.keys.History)
				if len(entries) != 2 || entries[0].Values[1] != "one" || entries[1].Values[1] != "two" {
					t.Errorf("history: %v", entries)
				}
				want := 0
				if fault == "OOM" {
					want = 2
				}
				if got := events(); len(got) != want {
					t.Errorf("published: %q", got)
				}
			})
		})
	}
}

// Reports that a node does not record are bounded: the newest stay.
func TestUnrecordedReportsAreBounded(t *testing.T) {
	rec := &recorder{}
	for i := range 3 * maxUnrecorded {
		rec.keep(append(rec.unrecorded, Report{Head: strconv.Itoa(i)}))
	}
	if got := rec.unrecorded; len(got) != maxUnrecorded || got[0].Head != strconv.Itoa(2*maxUnrecorded) {
		t.Errorf("%d reports, from %v on", len(got), got[0].Head)
	}
}
