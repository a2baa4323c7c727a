package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
)

func topReports() []report {
	node := []elector.NodeStatus{{Node: "n", Reachable: true, Fence: 1}}
	led := func(name string) report {
		return report{
			Status: elector.Status{Election: name, Leader: &elector.Leader{Candidate: "w1", Incarnation: "1"}, Nodes: node},
			roll:   []elector.CandidateStatus{{ID: "w1", Incarnation: "1", Healthy: true, Role: elector.RoleLeading}, {ID: "w2", Incarnation: "2", Healthy: true, Role: elector.RoleFollowing}},
		}
	}
	return []report{
		led("a-well"), {Status: elector.Status{Election: "b-abandoned", Nodes: node}, unused: true}, led("c-well"),
		{Status: elector.Status{Election: "d-vacant", Nodes: node}, roll: []elector.CandidateStatus{{ID: "x", Role: elector.RoleFollowing, Detail: "unhealthy: disk"}}},
	}
}

// Problems come first, and what is wrong with the selected one stands below, on any screen.
func TestTopShowsProblemsFirst(t *testing.T) {
	for _, width := range []int{40, 80, 200} {
		v := &topView{title: "mandate"}
		v.set(topReports(), nil)
		lines := v.render(&output.Printer{Width: width, Clip: true}, time.Now(), 24)
		if len(lines) != 24 || !strings.HasPrefix(lines[3], "> d-vacant") || !strings.HasPrefix(lines[6], "  b-a") {
			t.Errorf("%d columns:\n%s", width, strings.Join(lines, "\n"))
		}
		if all := strings.Join(lines, "\n"); !strings.Contains(all, "no candidate can lead (x: unhealthy") {
			t.Errorf("%d columns:\n%s", width, all)
		}
		for _, line := range lines {
			if output.Cells(line) > width {
				t.Errorf("%d columns: %q", width, line)
			}
		}
	}
}

// An election that is led, but by candidates that don't agree, stands before those that are well, with
// what differs and the command to type next.
func TestTopShowsMixedSuccessions(t *testing.T) {
	all := topReports()[:3]
	mixed := &all[2] // c-well
	mixed.roll[0].Succession, mixed.roll[1].Succession = string(elector.SuccessionSeniority), string(elector.SuccessionPriority)
	for _, width := range []int{80, 200} {
		v := &topView{title: "mandate"}
		v.set(all, nil)
		lines := v.render(&output.Printer{Width: width, Clip: true}, time.Now(), 24)
		screen := strings.Join(lines, "\n")
		if !strings.HasPrefix(lines[3], "> c-well") || !strings.Contains(lines[3], "DEGRADED") || strings.Count(screen, "DEGRADED") != 1 {
			t.Errorf("%d columns:\n%s", width, screen)
		}
		for _, want := range []string{"seniority", "priority", "mandate doctor c-well"} {
			if !strings.Contains(screen, want) {
				t.Errorf("%d columns, no %q:\n%s", width, want, screen)
			}
		}
	}
}

// What can't be read again stays, grey and with the time of its reading.
func TestTopMarksOldReadings(t *testing.T) {
	at := time.Date(2026, 11, 22, 8, 1, 2, 0, time.Local)
	read := func() []report {
		all := topReports()
		for i := range all {
			all[i].at = at
		}
		return all
	}
	failed := topReports()
	for i := range failed {
		failed[i] = report{Status: elector.Status{Election: failed[i].Election}, err: elector.ErrUnreachable}
	}
	for name, again := range map[string][]report{"nothing": nil, "the names alone": failed} {
		v := &topView{}
		v.set(read(), nil)
		v.set(again, errors.New("no node answers"))
		all := strings.Join(v.render(&output.Printer{Width: 80, Clip: true, Colors: true}, at, 24), "\n")
		for _, want := range []string{"\x1b[2md-vacant", "\x1b[2ma-well       w1", "0/0   as of 08:01:02  -\x1b[0m", "\x1b[31mas of 08:01:02: no node answers"} {
			if !strings.Contains(all, want) {
				t.Errorf("%s, no %q:\n%s", name, want, all)
			}
		}
		v.set(read(), nil)
		if all := strings.Join(v.render(&output.Printer{Width: 80, Clip: true}, at, 24), "\n"); strings.Contains(all, "as of") {
			t.Errorf("after the next reading:\n%s", all)
		}
	}
}

// The title names what is not the default, once.
func TestTopTitle(t *testing.T) {
	for want, a := range map[string]*app{
		"mandate top": {prefix: defaultPrefix}, "mandate top  prefix team": {prefix: "team"},
		"mandate top  context prod": {prefix: defaultPrefix, contexts: contextFlags{name: "prod", chosen: &redisContext{}}},
	} {
		if got := a.topTitle(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Nothing happens before the question was answered with yes.
func TestTopAsksBeforeItActs(t *testing.T) {
	v := &topView{}
	v.set(topReports(), nil)
	press := func(keys ...string) (action topAction, quit bool) {
		for _, key := range keys {
			action, quit = v.keys([]byte(key))
		}
		return action, quit
	}
	if action, _ := press("r"); action != nil || !strings.Contains(v.message, "has no leader") {
		t.Errorf("a vacant election: %q", v.message)
	}
	if action, _ := press("/", "a", "-", "w", "\r", "r"); action != nil || !strings.Contains(v.ask, "Make w1 step down from a-well? Then one of these leads: w2") {
		t.Errorf("%q", v.ask)
	}
	v.ask += strings.Repeat(", another candidate", 10)
	if lines := v.render(&output.Printer{Width: 80, Clip: true}, time.Now(), 24); !strings.HasSuffix(lines[len(lines)-1], ".. [y/N]") {
		t.Errorf("what to answer is cut off: %q", lines[len(lines)-1])
	}
	if action, _ := press("n"); action != nil || v.ask != "" || v.message != "nothing was done" {
		t.Errorf("%q, %q", v.ask, v.message)
	}
	if action, _ := press("r", "y"); action == nil {
		t.Error("yes, and nothing is done")
	}
	if press("\x1b", "j"); v.chosen != "c-well" {
		t.Errorf("chosen: %q", v.chosen)
	}
	if action, _ := press("p", "y"); action == nil {
		t.Error("no pause")
	}
	if _, quit := press("/", "q"); quit {
		t.Error("q in a filter ends it")
	}
	if _, quit := press("\x03"); !quit {
		t.Error("Ctrl-C does not end it")
	}
	// Keys that come together, as over a slow connection.
	if press("\x1b", "kkkkkk"); v.chosen != "d-vacant" {
		t.Errorf("chosen: %q", v.chosen)
	}
	first := v.chosen
	if press("\x1b[B\x1bOBj\x1b[A"); v.chosen == first {
		t.Error("keys that come together are dropped")
	}
	if action, _ := press("/a-w\rry\r"); action == nil || v.ask != "" {
		t.Errorf("a question and its answer at once: %q", v.ask)
	}
	if _, quit := press("\x03\x03\x03"); !quit {
		t.Error("three Ctrl-C do not end it")
	}
}

// Regression: the history did not name the operator who had resumed an election.
func TestTopNamesWhoResumes(t *testing.T) {
	m := miniredis.RunT(t)
	q, err := elector.Open("redis://" + m.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = q.Close() })
	_ = m.Set("mandate:{orders}:fence", "7")
	for _, paused := range []bool{false, true} {
		v := &topView{}
		v.askPause(&report{Status: elector.Status{Election: "orders", Paused: paused}})
		v.action(t.Context(), q, "ann")
	}
	el, err := q.Election("orders")
	if err != nil {
		t.Fatal(err)
	}
	all, err := el.Timeline(t.Context(), 10, time.Time{})
	if err != nil || len(all.Pauses) != 1 || all.Pauses[0].By != "ann" || all.Pauses[0].EndedBy != "ann" {
		t.Errorf("%+v, %v", all, err)
	}
}

// The list keeps its place on a small screen: what is empty takes none.
func TestTopOnSmallScreens(t *testing.T) {
	for height := 1; height <= 24; height++ {
		v := &topView{title: "mandate"}
		v.set(topReports(), nil)
		v.notify("something was done")
		lines := v.render(&output.Printer{Width: 80, Clip: true}, time.Now(), height)
		all := strings.Join(lines, "\n")
		if len(lines) != height || !strings.HasPrefix(lines[height-1], "up down") {
			t.Errorf("%d lines:\n%s", height, all)
		}
		if height >= 4 && !strings.Contains(all, "> d-vacant  ") {
			t.Errorf("%d lines, and the selected election is not shown:\n%s", height, all)
		}
		if height >= 12 && (!strings.Contains(all, "b-abandoned  ab") || !strings.Contains(all, "something was done")) {
			t.Errorf("%d lines, and not everything is shown:\n%s", height, all)
		}
	}
	v := &topView{}
	v.set(topReports()[:1], nil)
	if got := len(v.below(&output.Printer{Width: 80, Clip: true}, v.all, 0, time.Now(), 10)); got != 1 {
		t.Errorf("%d lines are reserved although there is nothing to show", got)
	}
}

// What was true a while ago is not shown as if it were so now.
func TestTopForgetsOldMessages(t *testing.T) {
	v := &topView{}
	v.set(topReports(), nil)
	v.keys([]byte("r"))
	if now := time.Now(); v.messageAt(now) != "d-vacant has no leader" || v.messageAt(now.Add(time.Minute)) != "" {
		t.Errorf("%q, a minute later %q", v.messageAt(now), v.messageAt(now.Add(time.Minute)))
	}
	if v.keys([]byte("j")); v.message != "" {
		t.Errorf("after another key: %q", v.message)
	}
	v.keys([]byte("/a-w\rry"))
	if v.keys([]byte("j")); v.messageAt(time.Now().Add(time.Minute)) != working {
		t.Errorf("while the action runs: %q", v.message)
	}
	// A key of a view is no flag.
	only := topReports()[0]
	only.roll = only.roll[:1]
	v = &topView{}
	v.set([]report{only}, nil)
	if v.keys([]byte("r")); !strings.Contains(v.message, "no other candidate that could lead; start one") || strings.Contains(v.message, "--") {
		t.Errorf("%q", v.message)
	}
	only.Paused = true
	v.set([]report{only}, nil)
	if v.keys([]byte("r")); v.ask != "" || !strings.Contains(v.message, "paused") {
		t.Errorf("paused: %q, %q", v.ask, v.message)
	}
}

// The states of elections without a leader stay whole.
func TestStatesAreNotCut(t *testing.T) {
	all := topReports()
	all[0].Election = strings.Repeat("long", 20)
	all[1].Election = strings.Repeat("name", 20)
	for _, width := range []int{40, 60, 80} {
		if lines := strings.Join((&output.Printer{Width: width}).Table(electionTable(all, false, false)), "\n"); !strings.Contains(lines, "abandoned") || !strings.Contains(lines, "vacant") {
			t.Errorf("%d columns:\n%s", width, lines)
		}
	}
}
