package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
)

// The next command acts on the same elections, and shows no password.
func TestNextCommandHasTheFlags(t *testing.T) {
	for line, want := range map[string]string{
		"status e":                             "",
		"status e --json":                      "",
		"status e --redis redis://a:1?db=2":    " --redis 'redis://a:1?db=2'",
		"status e --redis redis://a --redis b": " --redis redis://a --redis b",
		"status e --prefix p --redis redis://a --redis redis://:secret@b":  " --prefix p",
		"status e --prefix p --redis redis://a,redis://u:secret@b":         " --prefix p",
		"status e --prefix p --redis redis+sentinel://a/m?password=secret": " --prefix p",
	} {
		a := &app{stdout: io.Discard, stderr: io.Discard}
		root := a.command()
		cmd, args, err := root.Find(strings.Fields(line))
		if err == nil {
			err = cmd.ParseFlags(args)
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := string(a.givenFlags(cmd.Flags())); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
	r := reportOf(elector.Status{Election: "e", Nodes: []elector.NodeStatus{{Node: "n", Reachable: true}}})
	r.flags = " --prefix p"
	if _, next := r.problem(); !strings.Contains(next, "mandate ls --prefix p") {
		t.Errorf("next is %q", next)
	}
}

// The first line shows what happened, also when nothing is wrong any more.
func TestHeadline(t *testing.T) {
	now := time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC)
	r := reportOf(elector.Status{
		Election: "e", Leader: &elector.Leader{Candidate: "b", Since: now.Add(-time.Minute)},
		Nodes: []elector.NodeStatus{{Node: "n", Reachable: true, Fence: 1}},
	})
	r.CandidatesErr, r.flags = elector.ErrDenied, " --prefix p"
	line := func() string {
		text := ""
		for _, f := range r.headline(r.problems(), now) {
			text += f.Name + " " + f.Text + "; "
		}
		return text
	}
	if got := line(); got != "ok b leads; " {
		t.Errorf("a first leader: %q", got)
	}
	r.Terms = []elector.TermRecord{{Candidate: "a", Reason: elector.ReasonVanished}}
	if got := line(); got != "ok b leads; before it a: vanished; next mandate history e --prefix p; " {
		t.Errorf("after a crash: %q", got)
	}
	r.Terms[0] = elector.TermRecord{Candidate: "a", Reason: elector.ReasonExpired, Until: now, Detail: "suspended"}
	if got := line(); !strings.HasPrefix(got, "ok b leads; before it a: expired, reported ") {
		t.Errorf("its end was reported after the next one had begun: %q", got)
	}
	r.Terms[0] = elector.TermRecord{Candidate: "a"}
	if r.Terms[0].Reason = elector.ReasonShutdown; line() != "ok b leads; before it a: shutdown; " {
		t.Errorf("after a deploy: %q", line())
	}
	r.Terms[0].Reason, r.Leader.Since = elector.ReasonUnhealthy, now.Add(-2*time.Hour)
	if got := line(); got != "ok b leads; " {
		t.Errorf("a long time ago: %q", got)
	}
}

func TestLsCountsNoObservers(t *testing.T) {
	r := reportOf(elector.Status{Election: "e", Leader: &elector.Leader{Candidate: "a"}},
		elector.CandidateStatus{ID: "a", Healthy: true, Role: "leading"}, elector.CandidateStatus{ID: "watcher", Healthy: true, Role: "observing"})
	lines := (&output.Printer{Width: 200}).Table(electionTable([]report{r}, false))
	if !strings.Contains(lines[1], " 1/1 ") {
		t.Errorf("%q", lines)
	}
}

func reportOf(st elector.Status, roll ...elector.CandidateStatus) (r report) {
	r.Status, r.Candidates, r.At = st, roll, time.Now()
	return r
}
