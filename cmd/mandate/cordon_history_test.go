package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/internal/servertest"
)

// After an incident the cordons are seen among the terms, also those of members that never led.
func TestHistoryShowsCordons(t *testing.T) {
	m := miniredis.RunT(t)
	url := "redis://" + m.Addr()
	s := shell{t, url}
	s.run(0, "cordon", "worker-b", "--by", "ann", "--reason", "kernel")
	s.shows(exitNoLeader, "history e", "no history of e: is the name right?") // a cordon makes no election
	s.shows(0, "history --all", "worker-b cordoned by ann: kernel; it lasts")
	a, _ := campaign(t, url, "e", "worker-a")
	servertest.Eventually(t, time.Minute, "worker-a leads", a.IsLeader)
	servertest.Eventually(t, time.Minute, "its term is recorded", func() bool {
		terms, err := a.Election().History(t.Context(), 1)
		return err == nil && len(terms) == 1
	})
	s.run(0, "drain", "worker-b", "--by", "bob", "--yes")
	s.run(0, "uncordon", "worker-b", "--by", "eve", "--reason", "kernel runs")
	s.shows(0, "uncordon worker-b", "worker-b was not cordoned")
	s.run(0, "cordon", "worker-c", "--by", "ann")
	for _, line := range []string{"history e", "history --all", "history e -o wide", "history e --since 1h"} {
		s.shows(0, line, "worker-a", "leads", "worker-b cordoned by ann: kernel; ended by bob", "worker-b drained by bob; ended by eve: kernel runs", "worker-c cordoned by ann; it lasts")
	}
	out, _ := s.run(0, "history", "e")
	at := -1
	for _, text := range []string{"worker-c cordoned", "worker-b drained", "worker-a", "worker-b cordoned"} {
		i := strings.Index(out, text)
		if i <= at {
			t.Errorf("%q is not in its place:\n%s", text, out)
		}
		at = i
	}
	s.shows(0, "history e -n 1", "worker-c cordoned by ann; it lasts", "and 2 older cordons: a larger --count shows more")
	for _, args := range [][]string{{"history", "e", "--json"}, {"history", "--all", "--json"}} {
		out, _ := s.run(0, args...)
		var got elector.Timeline
		if err := json.Unmarshal([]byte(out), &got); err != nil || len(got.Cordons) != 3 || !got.Cordons[0].Current || !got.Cordons[1].Drain || got.Cordons[1].EndedBy != "eve" || got.Cordons[1].EndReason != "kernel runs" {
			t.Errorf("%v\n%s", err, out)
		}
	}
	if out, _ := s.run(0, "ls", "-o", "name"); out != "e\n" {
		t.Errorf("ls: %q", out)
	}

	// What is missing is said, and the rest is shown.
	m.Del("mandate:{}:history")
	_ = m.Set("mandate:{}:history", "hello")
	s.shows(exitFailed, "history e", "worker-a", "leads", "worker-c cordoned by ann; it lasts", "the history of the cordons, mandate:{}:history, could not be read")
	s.shows(exitFailed, "history --all", "worker-a", "leads", "could not be read")
	s.shows(0, "cordon worker-d --by ann", "worker-d is cordoned", "not recorded in the history", "WRONGTYPE")
	s.shows(0, "cordon worker-d --by ann --json", `"cordoned": true`, `"unrecorded": "not recorded in the history`)
	s.shows(0, "uncordon worker-d --by ann", "worker-d campaigns again", "not recorded in the history")
}

func TestCordonEntry(t *testing.T) {
	at := time.Unix(1e9, 0)
	for want, c := range map[string]elector.CordonRecord{
		"a cordoned; it lasts":                                    {ID: "a", From: at, Current: true},
		"a cordoned; it has ended, which was not recorded":        {ID: "a", From: at},
		"a drained: x":                                            {ID: "a", Drain: true, Reason: "x", From: at, Until: at.Add(time.Minute)},
		"a cordoned by ann; ended: y":                             {ID: "a", By: "ann", From: at, Until: at.Add(time.Minute), EndReason: "y"},
		"a uncordoned by bob; its begin is not recorded":          {ID: "a", Until: at, EndedBy: "bob"},
		"a cordoned by an operator's hand: ask bob; it lasts":     {ID: "a", By: "an operator's hand", Reason: "ask bob", Current: true},
		"a drained by ann: kernel; ended by bob: the kernel is x": {ID: "a", Drain: true, By: "ann", Reason: "kernel", From: at, Until: at, EndedBy: "bob", EndReason: "the kernel is x"},
	} {
		e := cordonEntry(c)
		if got := e.notes[0].text; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if (e.end == "drain") != c.Drain || e.at.IsZero() != (c.From.IsZero() && c.Until.IsZero()) {
			t.Errorf("%+v", e)
		}
	}
}

// Work on many other hosts does not push an election's own terms off the screen.
func TestHistoryBoundsCordons(t *testing.T) {
	at := time.Unix(1e9, 0)
	tl := elector.Timeline{Terms: []elector.TermRecord{{Token: 1, Candidate: "leader", From: at, Current: true}}, Availability: []elector.Availability{{Election: "e"}}}
	for i := range 100 {
		tl.Cordons = append(tl.Cordons, elector.CordonRecord{ID: fmt.Sprint("host-", i), From: at.Add(-time.Duration(i) * time.Minute), Until: at, Current: i == 99})
	}
	shown, left := cordonsShown(tl.Cordons, 10)
	if len(shown) != 11 || left != 89 || shown[10].ID != "host-99" {
		t.Errorf("%d, %d left", len(shown), left)
	}
	got := newest(elector.Timeline{Terms: []elector.TermRecord{{From: at.Add(-30 * time.Second)}, {From: at.Add(-time.Hour)}}, Cordons: slices.Clone(tl.Cordons)}, 1)
	if len(got.Cordons) != 2 {
		t.Errorf("%d are of the time of the newest term", len(got.Cordons))
	}
	var out captured
	a := &app{stdout: &out, stderr: &out}
	if err := a.printTimeline(tl, historyFlags{count: 10}, "", nil); err != nil || !strings.Contains(out.String(), "and 89 older cordons") || !strings.Contains(out.String(), "leader") {
		t.Errorf("%v\n%s", err, out.String())
	}
	if n := strings.Count(strings.Join((&output.Printer{}).Table(timelineTable(elector.Timeline{Cordons: tl.Cordons[:1]}, historyFlags{all: true})), "\n"), "host-0"); n != 1 {
		t.Errorf("named %d times", n)
	}
}
