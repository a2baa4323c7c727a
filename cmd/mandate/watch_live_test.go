//go:build unix

package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

var liveNow = time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)

// busyView has more to show than there is room, and long words in it.
func busyView() *liveView {
	v := &liveView{paper: newPaper(&bytes.Buffer{}), election: "orders"}
	v.recall([]elector.TermRecord{ // newest first
		{Token: 2, Candidate: "b", From: liveNow.Add(-time.Minute), Current: true},
		{Token: 1, Candidate: "a", From: liveNow.Add(-time.Hour), Until: liveNow.Add(-time.Minute), Reason: elector.ReasonUnhealthy, Detail: strings.Repeat("wörds\n", 40)},
	})
	for i := range 300 {
		v.heard(elector.Event{Kind: elector.EventUnhealthy, Candidate: fmt.Sprint("c", i), Detail: strings.Repeat("x", 200), Time: liveNow})
	}
	for i := range 12 {
		v.roll.all = append(v.roll.all, elector.CandidateStatus{ID: fmt.Sprint("follower", i), Role: "following", Healthy: i > 0, Detail: strings.Repeat("why\n", 40)})
	}
	v.asked(answer{st: elector.Status{
		Election: "orders", Leader: &elector.Leader{Candidate: strings.Repeat("long", 50), Advertise: "10.0.0.1:80", Token: 2, LeaseLeft: 10 * time.Second},
		Nodes: []elector.NodeStatus{{Node: "a:1", Reachable: true}, {Node: "b:1", Error: "b:1: no answer in time"}, {Node: "c:1", Reachable: true, Abstains: time.Second}},
	}}, liveNow)
	return v
}

// Whatever there is to show, it fits: a longer line would wrap and shift all.
func TestLiveViewFits(t *testing.T) {
	v := busyView()
	for width := 1; width < 130; width += 7 {
		for height := 1; height < 40; height += 3 {
			lines := v.render(liveNow, width, height)
			if len(lines) > height {
				t.Errorf("%d lines on %d", len(lines), height)
			}
			for _, l := range lines {
				if n := len([]rune(l)); n > width || strings.Contains(l, "\n") {
					t.Errorf("%d columns on %d: %q", n, width, l)
				}
			}
		}
	}
	if len(v.events) != keptLines {
		t.Errorf("%d events are kept", len(v.events))
	}
}

func TestLiveViewTells(t *testing.T) {
	shows := func(v *liveView, after time.Duration, want ...string) {
		t.Helper()
		all := strings.Join(v.render(liveNow.Add(after), 80, 24), "\n")
		for _, w := range want {
			if !strings.Contains(all, w) {
				t.Errorf("no %q in\n%s", w, all)
			}
		}
	}
	v := busyView()
	full, half := strings.Repeat("█", 40), strings.Repeat("█", 20)+strings.Repeat("░", 20)
	shows(v, 0, "orders", full, "10.0.0.1:80", "down: no answer in time", "does not vote for another 1.0s", "c299",
		"follower0                following, unhealthy: why", "follower7                following\n", "12 in all")
	shows(v, 5*time.Second, half+" 5.0s")                  // the lease runs between two answers
	shows(v, time.Minute, strings.Repeat("░", 40), "<1ms") // and never below nothing
	v.asked(answer{st: elector.Status{Nodes: []elector.NodeStatus{{Reachable: true, Fence: 3}}}}, liveNow)
	shows(v, 0, "leader    none")
	v.asked(answer{st: elector.Status{Nodes: []elector.NodeStatus{{}}}, err: elector.ErrUnreachable}, liveNow)
	shows(v, 0, "leader    unknown")
	fresh := &liveView{}
	fresh.recall([]elector.TermRecord{{Token: 2, Candidate: "b", From: liveNow, Current: true}})
	fresh.heard(elector.Event{Kind: elector.EventElected, Token: 2, Candidate: "b", Time: liveNow}) // how things stand: known from the history
	if len(fresh.events) != 1 {
		t.Errorf("an election is listed twice: %+v", fresh.events)
	}
	shows(&liveView{paper: newPaper(&bytes.Buffer{})}, 0, "asking Redis")
	v.asked(answer{st: elector.Status{Paused: true, Pause: "by ann: migration", PauseLeft: time.Minute}}, liveNow)
	shows(v, 15*time.Second, "paused    for another 45.0s: no new leader will be elected (by ann: migration)")
	v.asked(answer{st: elector.Status{Paused: true, Pause: "by ann"}}, liveNow)
	shows(v, 0, "paused    until it is resumed: no new leader will be elected (by ann)")
}

// A roll is older than what Redis says: who led then is not shown as leading,
// and a new leader has the roll called anew.
func TestLiveViewTrustsRedisMoreThanTheRoll(t *testing.T) {
	v := &liveView{paper: newPaper(&bytes.Buffer{}), election: "orders"}
	leads := func(who string, token uint64) answer {
		return answer{st: elector.Status{Leader: &elector.Leader{Candidate: who, Token: token, LeaseLeft: time.Second}}}
	}
	v.asked(leads("a", 1), liveNow)
	v.roll.all = []elector.CandidateStatus{{ID: "a", Role: "leading", Token: 1, Healthy: true}, {ID: "b", Role: "following", Healthy: true}}
	if v.asked(leads("a", 1), liveNow) || !v.asked(leads("b", 2), liveNow) {
		t.Error("the roll must be called when another one leads, and only then")
	}
	all := strings.Join(v.render(liveNow, 80, 24), "\n")
	if strings.Contains(all, "leading") || !strings.Contains(all, "a                        led when it last answered") {
		t.Errorf("the leader of before is shown as one:\n%s", all)
	}
	for left, want := range map[time.Duration]time.Duration{time.Minute: askEvery, 1500 * time.Millisecond: 500 * time.Millisecond, 0: drawEvery} {
		if got := askIn(elector.Status{Leader: &elector.Leader{LeaseLeft: left}}); got != want {
			t.Errorf("with %v left, Redis is asked in %v, want %v", left, got, want)
		}
	}
}

// In a pipe watch writes lines, and no terminal's codes.
func TestWatchInAPipeHasNoScreen(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if (&app{stdout: w}).screen() != nil || (&app{stdout: &bytes.Buffer{}}).screen() != nil {
		t.Error("a pipe is taken for a terminal")
	}
}
