//go:build unix

package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
)

var liveNow = time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)

// busyView has more to show than there is room, and long words in it.
func busyView() *liveView {
	v := &liveView{election: "orders"}
	v.addHistory([]elector.TermRecord{ // newest first
		{Token: 2, Candidate: "b", From: liveNow.Add(-time.Minute), Current: true},
		{Token: 1, Candidate: "a", From: liveNow.Add(-time.Hour), Until: liveNow.Add(-time.Minute), Reason: elector.ReasonUnhealthy, Detail: strings.Repeat("wörds\n", 40)},
	})
	for i := range 300 {
		v.addEvent(elector.Event{Kind: elector.EventUnhealthy, Candidate: fmt.Sprint("c", i), Detail: strings.Repeat("x", 200), Time: liveNow})
	}
	for i := range 12 {
		v.roll = append(v.roll, elector.CandidateStatus{ID: fmt.Sprint("follower", i), Role: "following", Healthy: i > 0, Detail: strings.Repeat("why\n", 40)})
	}
	v.setStatus(elector.Status{
		Election: "orders", Leader: &elector.Leader{Candidate: strings.Repeat("long", 50), Advertise: "10.0.0.1:80", Token: 2, LeaseLeft: 10 * time.Second},
		Nodes: []elector.NodeStatus{{Node: "a:1", Reachable: true}, {Node: "b:1", Error: "no answer in time"}, {Node: "c:1", Reachable: true, Abstains: time.Second}},
	}, nil, liveNow)
	return v
}

func screen(width int) *output.Printer { return &output.Printer{Width: width, Clip: true} }

// Whatever there is to show, it fits: a longer line would wrap and shift all.
func TestLiveViewFits(t *testing.T) {
	v := busyView()
	for width := 1; width < 130; width += 7 {
		for height := 1; height < 40; height += 3 {
			lines := v.render(screen(width), liveNow, height)
			if len(lines) > height {
				t.Errorf("%d lines on %d", len(lines), height)
			}
			for _, l := range lines {
				if n := output.Cells(l); n > width || strings.Contains(l, "\n") {
					t.Errorf("%d columns on %d: %q", n, width, l)
				}
			}
		}
	}
	if len(v.events) != maxEvents {
		t.Errorf("%d events are kept", len(v.events))
	}
}

func TestLiveViewShows(t *testing.T) {
	shows := func(v *liveView, after time.Duration, want ...string) {
		t.Helper()
		all := strings.Join(v.render(screen(80), liveNow.Add(after), 40), "\n")
		for _, w := range want {
			if !strings.Contains(all, w) {
				t.Errorf("no %q in\n%s", w, all)
			}
		}
	}
	v := busyView()
	full, half := strings.Repeat("█", 40), strings.Repeat("█", 20)+strings.Repeat("░", 20)
	shows(v, 0, "orders", full, "10.0.0.1:80", "    no answer in time", "no vote for another 1s", "c299",
		"follower0  following  UNHEALTHY", "    why why", "follower7  following  ok", "12 candidates in all")
	shows(v, 5*time.Second, half+" 5.0s")                // the lease runs between two answers
	shows(v, time.Minute, strings.Repeat("░", 40)+" 0s") // and never below nothing
	v.setStatus(elector.Status{Nodes: []elector.NodeStatus{{Reachable: true, Fence: 3}}}, nil, liveNow)
	shows(v, 0, "leader      none")
	v.setStatus(elector.Status{Nodes: []elector.NodeStatus{{}}}, elector.ErrUnreachable, liveNow)
	shows(v, 0, "leader      unknown")
	fresh := &liveView{}
	fresh.addHistory([]elector.TermRecord{{Token: 2, Candidate: "b", From: liveNow, Current: true}})
	fresh.addEvent(elector.Event{Kind: elector.EventElected, Token: 2, Candidate: "b", Time: liveNow}) // how things stand: known from the history
	if len(fresh.events) != 1 {
		t.Errorf("an election is listed twice: %+v", fresh.events)
	}
	shows(&liveView{}, 0, "reading from Redis")
	v.setStatus(elector.Status{Paused: true, Pause: "by ann: migration", PauseLeft: time.Minute}, nil, liveNow)
	shows(v, 15*time.Second, "paused      for another 45s: no new leader will be elected (by ann: migration)")
	v.setStatus(elector.Status{Paused: true, Pause: "by ann"}, nil, liveNow)
	shows(v, 0, "paused      until it is resumed: no new leader will be elected (by ann)")
}

// A roll is older than the status: who led then is not shown as leading,
// and a new leader has the roll called anew.
func TestLiveViewOldRoll(t *testing.T) {
	v := &liveView{election: "orders"}
	leads := func(who string, token uint64) (changed bool) {
		return v.setStatus(elector.Status{Leader: &elector.Leader{Candidate: who, Token: token, LeaseLeft: time.Second}}, nil, liveNow)
	}
	leads("a", 1)
	v.roll = []elector.CandidateStatus{{ID: "a", Role: "leading", Token: 1, Healthy: true}, {ID: "b", Role: "following", Healthy: true}}
	if leads("a", 1) || !leads("b", 2) {
		t.Error("the roll must be called when another one leads, and only then")
	}
	all := strings.Join(v.render(screen(80), liveNow, 24), "\n")
	if strings.Contains(all, "leading") || !strings.Contains(all, "a          led before") {
		t.Errorf("the leader of before is shown as one:\n%s", all)
	}
	for left, want := range map[time.Duration]time.Duration{time.Minute: readEvery, 1500 * time.Millisecond: 500 * time.Millisecond, 0: drawEvery} {
		if got := nextRead(elector.Status{Leader: &elector.Leader{LeaseLeft: left}}); got != want {
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
