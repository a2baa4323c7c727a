package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/console"
	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/doctor"
	"github.com/mandate-dev/mandate/elector/electortest"
)

// The next command acts on the same elections, and shows no password.
func TestNextCommandHasTheFlags(t *testing.T) {
	for line, want := range map[string]string{
		"status e":                             "",
		"status e --json":                      "",
		"status e --redis redis://a:1?db=2":    " --redis 'redis://a:1?db=2'",
		"status e --redis redis://a --redis b": " --redis redis://a --redis b",
		"status e --prefix p --redis redis://a --redis redis://:secret@b":  " --prefix p --redis URL",
		"status e --prefix p --redis redis://a,redis://u:secret@b":         " --prefix p --redis URL",
		"status e --prefix p --redis redis+sentinel://a/m?password=secret": " --prefix p --redis URL",
	} {
		c := &connection{terminal: &terminal{stdout: io.Discard, stderr: io.Discard}}
		root := rootCommand(c)
		cmd, args, err := root.Find(strings.Fields(line))
		if err == nil {
			err = cmd.ParseFlags(args)
		}
		must(t, err)
		if got := string(c.givenFlags(cmd.Flags())); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
	r := reportOf(elector.Status{Election: "e", Nodes: []elector.NodeStatus{{Node: "n", Reachable: true}}})
	r.flags = " --prefix p"
	if p := r.problem(); !strings.Contains(p.Advice, "mandate ls --prefix p") {
		t.Errorf("%+v", p)
	}
}

// A node that does not answer is named once, above all elections; a problem of one of them in its row.
func TestNodeProblemStandsOnce(t *testing.T) {
	var out strings.Builder
	c := &connection{terminal: &terminal{stdout: &out}, given: " --prefix p"}
	var all []report
	for _, name := range []string{"x", "y", "z"} {
		all = append(all, reportOf(elector.Status{Election: name, Leader: &elector.Leader{Candidate: "l"}, Nodes: []elector.NodeStatus{
			{Node: "n1", Reachable: true, Fence: 1}, {Node: "n2", Reachable: true, Fence: 1}, {Node: "n3", Error: "no answer in time"},
		}}))
	}
	all[1].Candidates = []elector.CandidateStatus{{ID: "l", Role: "leading", Healthy: true}, {ID: "b", Role: "following", Detail: "unwell"}}
	must(t, printElections(c, all, false))
	got := out.String()
	if strings.Count(got, "n3") != 1 || !strings.HasPrefix(got, "problem     1 of 3 nodes can't be read (n3: ") || !strings.Contains(got, "mandate doctor y --prefix p\n") ||
		!regexp.MustCompile(`(?m)^y .*unwell$`).MatchString(got) {
		t.Errorf("printed\n%s", got)
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
	if got := line(); !strings.HasPrefix(got, "ok b leads; before it a: vanished, at the latest ") || !strings.HasSuffix(got, " ago; next mandate history e --prefix p; ") {
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

// An election is neither led nor vacant where that depends on a node that is down.
func TestWhoMayLead(t *testing.T) {
	nodes := []elector.NodeStatus{{Node: "n", Reachable: true, Fence: 1}, {Node: "m", Reachable: true, Fence: 1}, {Node: "down", Error: "refused"}}
	r := reportOf(elector.Status{Election: "e", Nodes: nodes, MayLead: &elector.Leader{Candidate: "a"}})
	if row := r.row(); row.State != stateUnknown || row.Rank != console.RankProblem || row.Leader != "a" {
		t.Errorf("the console's row: %+v", row)
	}
	if p := r.problem(); !strings.HasSuffix(p.Found, "(down: refused): the leader is unknown") {
		t.Errorf("%+v", p)
	}
	if exit := (*exitError)(nil); !errors.As(waitFlags{}.lacks(r.Status, nil, false), &exit) || exit.code != exitUnreachable {
		t.Errorf("wait: %+v", exit)
	}
	s := &samples{}
	if s.election(&r); len(s.all) != 2 {
		t.Errorf("samples beside those of the roll: %v", s.all)
	}
}

// Two leaders are as urgent as none, whether both answer or only their locks show them.
func TestTwoLeadersAreUrgent(t *testing.T) {
	two := reportOf(elector.Status{Election: "e", Leader: &elector.Leader{Candidate: "a"}, Nodes: []elector.NodeStatus{{Node: "n", Reachable: true, Fence: 1}}})
	one := two
	two.Candidates = []elector.CandidateStatus{{ID: "a", Role: "leading"}, {ID: "b", Role: "leading"}}
	one.Candidates = two.Candidates[:1]
	if row := one.row(); row.Rank == console.RankUrgent {
		t.Errorf("one leader: %+v", row)
	}
	if row := two.row(); row.Rank != console.RankUrgent || !strings.HasPrefix(row.Problem, "2 candidates lead at the same time") {
		t.Errorf("both answer: %+v", row)
	}
	one.Conflict = "a and b hold locks here"
	if row := one.row(); row.Rank != console.RankUrgent || row.Problem != one.Conflict {
		t.Errorf("by their locks: %+v", row)
	}
	two.Leader, two.Paused = nil, true
	if row := two.row(); row.Rank != console.RankUrgent {
		t.Errorf("paused: %+v", row)
	}
}

// Between its runs the election of run --once is not missed.
func TestFinished(t *testing.T) {
	now := time.Now()
	r := reportOf(elector.Status{Election: "nightly", Nodes: []elector.NodeStatus{{Node: "n", Reachable: true, Fence: 1}}})
	r.Terms = []elector.TermRecord{{Candidate: "a", Reason: elector.ReasonFinished, From: now.Add(-time.Minute), Until: now.Add(-time.Second)}}
	p := r.problem()
	head := r.headline(r.problems(), now)
	if r.state() != stateFinished || p.Found != "" || r.rank(p) != console.RankAbandoned || len(head) != 1 || head[0].Name != "ok" {
		t.Errorf("%s, %+v, %+v", r.state(), p, head)
	}
	for name, change := range map[string]func(*report){
		"candidates of another version": func(r *report) { r.Others = []int{9} },
		"a lock of somebody else":       func(r *report) { r.Blocked = "the lock holds the value \"x\"" },
	} {
		other := r
		if change(&other); other.Finished() {
			t.Errorf("%s: finished", name)
		}
	}
	r.Candidates = []elector.CandidateStatus{{ID: "b", Role: "following", Detail: "unwell"}}
	if p := r.problem(); r.state() != stateVacant || p.Level != doctor.LevelFail || !p.Since.Equal(r.Terms[0].Until) {
		t.Errorf("one waits: %s, %+v", r.state(), p)
	}
	r.Candidates, r.Terms[0].Reason = nil, elector.ReasonFailed
	if p := r.problem(); r.state() != stateVacant || p.Level != doctor.LevelFail {
		t.Errorf("it failed: %s, %+v", r.state(), p)
	}
}

// What went wrong lately, and does no more, is a note below what is so now.
func TestNotes(t *testing.T) {
	now := time.Now()
	var out strings.Builder
	term := &terminal{stdout: &out}
	r := reportOf(elector.Status{Election: "e", Leader: &elector.Leader{Candidate: "a", Since: now.Add(-time.Minute)}, Nodes: []elector.NodeStatus{{Node: "n", Reachable: true, Fence: 1}}})
	r.CandidatesErr = elector.ErrDenied
	r.Terms = []elector.TermRecord{{Candidate: "a", Reason: elector.ReasonDataLost, Until: now.Add(-time.Minute)}}
	if err := printStatus(term, &r, false, false); err != nil || !regexp.MustCompile(`(?s)^ok +a leads; .*\nnote +the nodes lost all their data, `).MatchString(out.String()) {
		t.Errorf("%v: %s", err, &out)
	}
	if p := r.problem(); p.Level != "" {
		t.Errorf("a problem: %+v", p)
	}
	out.Reset()
	if err := printFindings(term, r.Findings(nil), false, false); err != nil || !regexp.MustCompile(`(?s)^ok +nothing is wrong\n\nnote +data .* notes 1, `).MatchString(out.String()) || verdict(r.Findings(nil)) != nil {
		t.Errorf("%v: %s", err, &out)
	}
}

func reportOf(st elector.Status, roll ...elector.CandidateStatus) (r report) {
	r.Status, r.Candidates, r.At = st, roll, time.Now()
	return r
}

// A name that is not known has the exit code of every other command, unless Redis does not work.
func TestDoctorVerdict(t *testing.T) {
	warn, fail := doctor.Finding{Check: "persistence", Level: doctor.LevelWarn}, doctor.Finding{Check: "majority", Level: doctor.LevelFail}
	trace := doctor.Finding{Check: "trace", Level: doctor.LevelWarn}
	for _, c := range []struct {
		findings []doctor.Finding
		want     int
	}{
		{[]doctor.Finding{{Check: "reach", Level: doctor.LevelOK}}, 0},
		{[]doctor.Finding{warn}, exitWarnings},
		{[]doctor.Finding{warn, trace}, exitNoLeader},
		{[]doctor.Finding{warn, trace, fail}, exitFailures},
	} {
		var exit *exitError
		got := 0
		if errors.As(verdict(c.findings), &exit) {
			got = exit.code
		}
		if got != c.want {
			t.Errorf("%+v: exit code %d, want %d", c.findings, got, c.want)
		}
	}
}

// A list of elections waits once for all candidates that never answer, such as somebody who
// subscribes to channels that look like ours; and when time is up, it reports what is missing.
func TestListWaitsOnceForThoseThatDoNotAnswer(t *testing.T) {
	electortest.Test(t, func(t *testing.T, r *electortest.Redis) {
		const foreign = 100
		var channels []string
		for i := range foreign {
			channels = append(channels, fmt.Sprintf("mandate:{foreign-%d}:roll", i))
		}
		x := r.Client("x")
		for i := range foreign {
			x.ZAdd(t.Context(), "mandate:elections", redis.Z{Member: fmt.Sprintf("foreign-%d", i), Score: float64(time.Now().UnixMilli())})
		}
		sub := x.Subscribe(t.Context(), channels...)
		t.Cleanup(func() { _ = sub.Close() })
		for range channels {
			if _, err := sub.Receive(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		q := r.Quorum("operator")
		names, err := q.Elections(t.Context())
		if err != nil || len(names) != foreign {
			t.Fatalf("%d names, %v", len(names), err)
		}
		began := time.Now()
		all := electionRows(names)
		err = readAll(t.Context(), q, all, 1)
		if took := time.Since(began); err != nil || took > 2*time.Second {
			t.Errorf("after %v: %v", took, err)
		}
		if text := strings.Join((&output.Printer{}).Table(electionTable(all)), "\n"); strings.Contains(text, "?") {
			t.Errorf("something is not known:\n%.300s", text)
		}

		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if err := readAll(ctx, q, all[:1], 1); err == nil || !strings.HasSuffix(err.Error(), "they did not all answer within 10s") {
			t.Errorf("cut off: %v", err)
		}
	})
}

// Regression: a query that the end of --timeout cut off counted as nodes that do not answer.
func TestWaitEndsInTheMiddleOfAQuery(t *testing.T) {
	electortest.Test(t, func(t *testing.T, r *electortest.Redis) {
		e, err := elector.New(r.Quorum("a"), elector.Config{Election: "orders", ID: "a", Logger: slog.New(slog.DiscardHandler)})
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- e.Run(ctx, new(elector.Gate).Work)
		}()
		r.Lead(e)
		el, err := r.Quorum("operator").Election("orders")
		must(t, err)
		for range 20 {
			since := time.Since(e.Term().Since())
			time.AfterFunc(1200*time.Millisecond, func() {
				heal := r.CutOff("operator")
				time.AfterFunc(time.Second, heal)
			})
			// It queries again when the leader has led for long enough: half a second before the end.
			_, err = awaitLeader(ctx, el, waitFlags{led: since + 1500*time.Millisecond, timeout: 2 * time.Second})
			if exit := (*exitError)(nil); !errors.As(err, &exit) || exit.code != exitNoLeader {
				t.Fatalf("%v", err)
			}
			electortest.Advance(5 * time.Second)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
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
