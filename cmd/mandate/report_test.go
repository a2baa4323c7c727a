package main

import (
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/doctor"
)

// What is wrong with an election, in the order of what to fix first.
func TestProblemOfAReport(t *testing.T) {
	known := []elector.NodeStatus{{Node: "n", Reachable: true, Fence: 1}}
	leads := &elector.Leader{Candidate: "a", Incarnation: "1", Token: 7, LeaseLeft: 7900 * time.Millisecond}
	follows := elector.CandidateStatus{ID: "b", Incarnation: "2", Healthy: true, Role: elector.RoleFollowing}
	led := elector.CandidateStatus{ID: "a", Incarnation: "1", Healthy: true, Role: elector.RoleLeading, Succession: "race"}
	follows.Succession, follows.Host = "race", "vm1"
	voter := func(id string, identities ...string) elector.CandidateStatus {
		c := elector.CandidateStatus{ID: id, Healthy: true, Role: elector.RoleFollowing}
		for _, identity := range identities {
			c.Nodes = append(c.Nodes, elector.VotingNode{Name: "n", Identity: identity})
		}
		return c
	}
	fresh := []elector.NodeStatus{{Node: "n", Reachable: true}}
	abstains := []elector.NodeStatus{{Node: "n", Reachable: true, Abstains: 8500 * time.Millisecond}}
	lost := []elector.NodeStatus{known[0], abstains[0]}
	unhealthy := elector.CandidateStatus{ID: "a", Incarnation: "1", Role: elector.RoleFollowing, Detail: "probe-exec: disk full"}
	for name, c := range map[string]struct {
		r         report
		why, next string
	}{
		"a leader that hangs": {
			report{Status: elector.Status{Leader: leads, Nodes: known}, unresponsive: true, roll: []elector.CandidateStatus{follows}},
			"the leader a does not answer: it may hang or be dead; replaced in 7.9s unless it renews", "mandate candidates e",
		},
		"the only one": {
			report{Status: elector.Status{Leader: leads, Nodes: known}, unresponsive: true},
			"the leader a does not answer: it may hang or be dead; its lease ends in 7.9s unless it renews, and no candidate could replace it", "mandate candidates e",
		},
		"no roll":                    {report{Status: elector.Status{Leader: leads, Nodes: known}, rollErr: elector.ErrDenied}, "", ""},
		"unknown to all":             {report{Status: elector.Status{Nodes: fresh}}, "no trace of an election of this name", "mandate ls"},
		"paused before the first":    {report{Status: elector.Status{Nodes: fresh, Paused: true, Pause: "by ann"}}, "the election is paused (by ann)", "mandate resume e"},
		"never able to lead":         {report{Status: elector.Status{Nodes: fresh}, roll: []elector.CandidateStatus{unhealthy}}, "no candidate can lead (a: probe-exec: disk full)", "mandate candidates e"},
		"first election":             {report{Status: elector.Status{Nodes: abstains}, roll: []elector.CandidateStatus{follows}}, "first election: nodes vote in 8.5s", "mandate wait e"},
		"first election, no roll":    {report{Status: elector.Status{Nodes: abstains}, rollErr: elector.ErrDenied}, "first election: nodes vote in 8.5s", "mandate wait e"},
		"a node has lost its data":   {report{Status: elector.Status{Nodes: lost}, roll: []elector.CandidateStatus{follows}}, "n is new, or lost its data: no vote for another 8.5s", "mandate wait e"},
		"first election, none is up": {report{Status: elector.Status{Nodes: abstains}}, "no candidate answers: none is running, or they use other nodes or another prefix", "mandate history e"},
		"a twin": {
			report{Status: elector.Status{Leader: leads, Nodes: known}, roll: []elector.CandidateStatus{led, follows, {ID: "b", Incarnation: "3", Healthy: true, Role: elector.RoleFollowing, Host: "vm2", PID: 7}}},
			"2 candidates have the id b: host vm1, process 7 on host vm2: give each its own", "mandate candidates e",
		},
		"one of three could not lead": {
			report{Status: elector.Status{Leader: leads, Nodes: known}, roll: []elector.CandidateStatus{led, follows, {ID: "c", Incarnation: "3", Role: elector.RoleFollowing, Unable: true, Detail: "its lease is 3s"}}},
			"1 of 3 candidates could not lead (c: its lease is 3s)", "mandate candidates e",
		},
		"one rests": {
			report{Status: elector.Status{Leader: leads, Nodes: known}, roll: []elector.CandidateStatus{led, {ID: "c", Incarnation: "3", Healthy: true, Role: elector.RoleResting, RestFor: time.Second}}},
			"", "",
		},
		"leadership keeps changing": {
			report{Status: elector.Status{Leader: leads, Nodes: known}, rollErr: elector.ErrDenied, flaps: "3 terms ended unwanted", flapped: &elector.TermRecord{Detail: "disk"}, last: &elector.TermRecord{Detail: "requested by anna"}},
			"3 terms ended unwanted (disk)", "mandate history e",
		},
		"it is paused, and has been lost often": {
			report{Status: elector.Status{Leader: leads, Nodes: known, Paused: true, Pause: "upgrade"}, roll: []elector.CandidateStatus{led, follows}, flaps: "3 terms ended unwanted"},
			"the election is paused (upgrade): when a stops, no other leader will be elected", "mandate resume e",
		},
		"a setting differs, and it has been lost often": {
			report{Status: elector.Status{Leader: leads, Nodes: known}, roll: []elector.CandidateStatus{
				{ID: "a", Incarnation: "1", Healthy: true, Role: elector.RoleLeading, Lease: 5 * time.Second},
				{ID: "b", Incarnation: "2", Healthy: true, Role: elector.RoleFollowing, Lease: 5 * time.Second},
				{ID: "c", Incarnation: "3", Role: elector.RoleFollowing, Unable: true, Detail: "its lease is 3s", Lease: 3 * time.Second},
			}, flaps: "3 terms ended unwanted"},
			"1 of 3 candidates could not lead (c: its lease is 3s)", "mandate candidates e",
		},
		"a probe fails, and it has been lost often": {
			report{Status: elector.Status{Leader: leads, Nodes: known}, roll: []elector.CandidateStatus{led, follows, {ID: "c", Incarnation: "3", Role: elector.RoleFollowing, Detail: "disk"}}, flaps: "3 terms ended unwanted"},
			"3 terms ended unwanted", "mandate history e",
		},
		"none leads, for they all rest": {
			report{Status: elector.Status{Nodes: known}, roll: []elector.CandidateStatus{{ID: "a", Healthy: true, Role: elector.RoleResting, RestFor: time.Second}}, flaps: "3 terms ended unwanted"},
			"3 terms ended unwanted", "mandate history e",
		},
		"most nodes have lost their data, and it has been lost often": {
			report{Status: elector.Status{Nodes: []elector.NodeStatus{known[0], abstains[0], abstains[0]}}, roll: []elector.CandidateStatus{follows}, flaps: "3 terms ended unwanted"},
			"n, n are new, or lost their data: no vote for another 8.5s", "mandate wait e",
		},
		"one node of three has lost its data, and it has been lost often": {
			report{Status: elector.Status{Nodes: []elector.NodeStatus{known[0], known[0], abstains[0]}}, roll: []elector.CandidateStatus{follows}, flaps: "3 terms ended unwanted"},
			"3 terms ended unwanted", "mandate history e",
		},
		"the leader is the only one, and is refused": {
			report{Status: elector.Status{Leader: leads, Nodes: known}, roll: []elector.CandidateStatus{{ID: "a", Incarnation: "1", Role: elector.RoleLeading, Unable: true, Detail: "the Redis user lacks a right"}}},
			"1 of 1 candidates could not lead (a, which leads: the Redis user lacks a right)", "mandate candidates e",
		},
		"another list": {
			report{Status: elector.Status{Leader: leads, Nodes: known}, roll: []elector.CandidateStatus{voter("a", "x"), voter("b", "y")}},
			"the candidates vote with different nodes, so two of them can lead", "mandate doctor e",
		},
		"another list with a node in common": {
			report{Status: elector.Status{Leader: leads, Nodes: known}, roll: []elector.CandidateStatus{voter("a", "x", "y", "z"), voter("b", "x")}},
			"the candidates vote with different nodes, so not all can replace the leader, and two can lead while no node that both list answers both", "mandate doctor e",
		},
		"a node has a new identity": {
			report{Status: elector.Status{Leader: leads, Nodes: lost}, roll: []elector.CandidateStatus{voter("a", "x"), voter("b", "y")}},
			"n is new, or lost its data: no vote for another 8.5s", "mandate doctor e",
		},
		"two nodes have lost their data": {
			report{Status: elector.Status{Leader: leads, Nodes: []elector.NodeStatus{abstains[0], known[0], {Node: "n3", Reachable: true, Abstains: time.Second}}}, roll: []elector.CandidateStatus{led, follows}},
			"n, n3 are new, or lost their data: no vote for another 8.5s", "mandate doctor e",
		},
		"another succession": {
			report{Status: elector.Status{Leader: leads, Nodes: known}, roll: []elector.CandidateStatus{led, follows, {ID: "c", Incarnation: "3", Healthy: true, Role: elector.RoleFollowing, Succession: "priority"}}},
			"the candidates differ in succession: priority on c; race on a, b", "mandate doctor e",
		},
		"a node is down, and one is full": {
			report{Status: elector.Status{Leader: leads, Nodes: []elector.NodeStatus{known[0], {Node: "n2:1", Reachable: true}, {Node: "n3:1", Error: "no such host"}}}, rollErr: elector.ErrDenied,
				writes: []doctor.Finding{{Node: "n2:1", Level: doctor.LevelFail, Found: "OOM"}}},
			"no other leader can be elected: 1 of 3 nodes refuses writes (OOM), and 1 of 3 nodes does not answer (n3:1: no such host)", "mandate doctor e",
		},
		"a node is down": {
			report{Status: elector.Status{Leader: leads, Nodes: []elector.NodeStatus{known[0], known[0], {Node: "n3:1", Error: "lookup n3: no such host"}}}, rollErr: elector.ErrDenied},
			"1 of 3 nodes does not answer (n3:1: lookup n3: no such host)", "mandate doctor e",
		},
	} {
		c.r.Election = "e"
		if why, next := c.r.problem(); why != c.why || next != c.next {
			t.Errorf("%s: %q, %q\nwant %q, %q", name, why, next, c.why, c.next)
		}
	}
}

// The next command acts on the same elections, and shows no password.
func TestNextCommandHasTheFlags(t *testing.T) {
	for line, want := range map[string]string{
		"status e":                             "",
		"status e --json":                      "",
		"status e --redis redis://a:1?db=2":    " --redis 'redis://a:1?db=2'",
		"status e --redis redis://a --redis b": " --redis redis://a --redis b",
		"status e --prefix p --redis redis://a --redis redis://:secret@b":  " --prefix p",
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
	r := report{Status: elector.Status{Election: "e", Nodes: []elector.NodeStatus{{Node: "n", Reachable: true}}}}
	(&app{given: " --prefix p"}).setOrigin(&r)
	if _, next := r.problem(); next != "mandate ls --prefix p" {
		t.Errorf("next is %q", next)
	}
}

// The first line shows what happened, also when nothing is wrong any more.
func TestHeadline(t *testing.T) {
	now := time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC)
	r := report{Status: elector.Status{
		Election: "e", Leader: &elector.Leader{Candidate: "b", Since: now.Add(-time.Minute)},
		Nodes: []elector.NodeStatus{{Node: "n", Reachable: true, Fence: 1}},
	}, rollErr: elector.ErrDenied, flags: " --prefix p"}
	line := func() string {
		text := ""
		for _, f := range r.headline(now) {
			text += f.Name + " " + f.Text + "; "
		}
		return text
	}
	if got := line(); got != "ok b leads; " {
		t.Errorf("a first leader: %q", got)
	}
	r.last = &elector.TermRecord{Candidate: "a", Reason: elector.ReasonVanished}
	if got := line(); got != "ok b leads; before it a: vanished; next mandate history e --prefix p; " {
		t.Errorf("after a crash: %q", got)
	}
	r.last = &elector.TermRecord{Candidate: "a", Reason: elector.ReasonExpired, Until: now, Detail: "suspended"}
	if got := line(); !strings.HasPrefix(got, "ok b leads; before it a: expired, reported ") {
		t.Errorf("its end was reported after the next one had begun: %q", got)
	}
	r.last = &elector.TermRecord{Candidate: "a", Overlaps: []uint64{7}}
	if got := line(); got != "problem the last leader, a, led at the same time as another one (token 7); next mandate doctor e --prefix p; " {
		t.Errorf("two led at once: %q", got)
	}
	r.last = &elector.TermRecord{Candidate: "a"}
	if r.last.Reason = elector.ReasonShutdown; line() != "ok b leads; before it a: shutdown; " {
		t.Errorf("after a deploy: %q", line())
	}
	r.last.Reason, r.Leader.Since = elector.ReasonUnhealthy, now.Add(-2*time.Hour)
	if got := line(); got != "ok b leads; " {
		t.Errorf("a long time ago: %q", got)
	}
	r.Paused, r.Pause = true, "by ann"
	if got := line(); got != "problem the election is paused (by ann): when b stops, no other leader will be elected; next mandate resume e --prefix p; " {
		t.Errorf("paused: %q", got)
	}
}

// Every suggested command is printed with the flags that choose the Redis.
func TestCommandsInTextsHaveTheFlags(t *testing.T) {
	const flags = " --prefix prod"
	st := elector.Status{Election: "an e", Blocked: "x", Conflict: "y"}
	r := report{Status: st, flags: flags, unresponsive: true}
	var texts []string
	for _, f := range conditionFields(st, flags) {
		texts = append(texts, f.Text)
	}
	texts = append(texts, strings.Split(r.condition(), "mandate")[1:]...)
	for i, text := range texts {
		if named := strings.Contains(text, "mandate ") || strings.Contains(text, "'an e'"); named && !strings.Contains(text, flags) {
			t.Errorf("%d: %q lacks the flags", i, text)
		}
	}
	if all := strings.Join(texts, "\n"); strings.Count(all, flags) != 5 || strings.Count(all, "'an e' --prefix") != 5 {
		t.Errorf("flags are missing, or quotes:\n%s", all)
	}
}

// A candidate that has not met an emptied node again does not vote with another one.
func TestCandidatesWhileANodeAbstains(t *testing.T) {
	voter := func(id, identity string) elector.CandidateStatus {
		return elector.CandidateStatus{ID: id, Nodes: []elector.VotingNode{{Name: "n", Identity: identity}}}
	}
	roll := []elector.CandidateStatus{voter("a", "x"), voter("b", "y")}
	for left, want := range map[time.Duration]bool{0: true, time.Second: false} {
		lines := (&output.Printer{}).Table(candidateTable(roll, []elector.NodeStatus{{Reachable: true}, {Reachable: true, Abstains: left}}, false, true))
		if got := strings.Contains(strings.Join(lines, "\n"), "votes with: n"); got != want {
			t.Errorf("abstains for %v: %v", left, got)
		}
	}
}

// What is left of a lease is less by the time that the other parts took.
func TestReportSubtractsTheTimeSinceTheReading(t *testing.T) {
	r := report{
		Status:       elector.Status{Election: "e", Leader: &elector.Leader{Candidate: "a", Incarnation: "1", LeaseLeft: 2 * time.Second}, Nodes: []elector.NodeStatus{{Node: "n", Reachable: true, Fence: 1}}},
		unresponsive: true, roll: []elector.CandidateStatus{{ID: "b", Healthy: true, Role: elector.RoleFollowing}}, at: time.Now().Add(-1500 * time.Millisecond),
	}
	text := regexp.MustCompile(`replaced in (4[0-9]{2}|500)ms unless it renews`)
	if why, _ := r.problem(); !text.MatchString(why) {
		t.Errorf("%q", why)
	}
	if lines := strings.Join((&output.Printer{}).Table(electionTable([]report{r}, false)), "\n"); !regexp.MustCompile(`a +\? +(4[0-9]{2}|500)ms `).MatchString(lines) {
		t.Errorf("%s", lines)
	}
	r.at = r.at.Add(-time.Second)
	if why, _ := r.problem(); !strings.HasSuffix(why, "; its lease has just ended") {
		t.Errorf("%q", why)
	}
}

func ledReport() report {
	return report{
		Status: elector.Status{Election: "e", Leader: &elector.Leader{Candidate: "w1", Incarnation: "1"}, Nodes: []elector.NodeStatus{{Node: "n", Reachable: true, Fence: 1}}},
		roll:   []elector.CandidateStatus{{ID: "w1", Incarnation: "1", Healthy: true, Role: elector.RoleLeading}, {ID: "w2", Incarnation: "2", Healthy: true, Role: elector.RoleFollowing}},
	}
}

// A list marks an election whose leadership keeps changing, and gives whole seconds.
func TestListShowsFlapping(t *testing.T) {
	r := ledReport()
	r.evaluateTerms([]elector.TermRecord{
		{Reason: elector.ReasonExpired, Until: time.Now().Add(-52 * time.Second)}, {Reason: elector.ReasonLost, Until: time.Now()}, {Reason: elector.ReasonLost, Until: time.Now()},
	}, fewTerms, time.Now())
	lines := (&output.Printer{}).Table(electionTable([]report{r}, false))
	if !strings.Contains(lines[1], "  expired 52s ago  FLAPPING: mandate history e") {
		t.Errorf("%s", strings.Join(lines, "\n"))
	}
}

// Of work that fails, its log knows more than the history.
func TestFailingWorkNamesItsLog(t *testing.T) {
	now := time.Now()
	r := ledReport()
	r.roll[0].Host, r.roll[0].PID = "vm1", 7
	var terms []elector.TermRecord
	for range 3 {
		terms = append(terms, elector.TermRecord{Candidate: "w1", Reason: elector.ReasonFailed, Until: now, Detail: "exit status 3"})
	}
	r.evaluateTerms(terms, fewTerms, now)
	if why, next := r.problem(); !strings.HasSuffix(why, "unwanted: 3 failed (exit status 3)") || next != "read the log of w1, host vm1, process 7" {
		t.Errorf("%q, %q", why, next)
	}
}

// The example of terms that were lost is one that was lost that way, not just the last.
func TestFlapsOfHistory(t *testing.T) {
	now := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	var terms []elector.TermRecord
	for i, reason := range []elector.Reason{elector.ReasonResigned, elector.ReasonExpired, elector.ReasonExpired, elector.ReasonUnhealthy} {
		terms = append(terms, elector.TermRecord{Reason: reason, Token: uint64(9 - i), Until: now.Add(-time.Duration(i) * time.Minute)})
	}
	flapsOf := func(terms []elector.TermRecord) (string, *elector.TermRecord) {
		var r report
		r.evaluateTerms(terms, len(terms), now)
		return r.flaps, r.flapped
	}
	flaps, flapped := flapsOf(terms)
	if flaps != "at least 3 terms of the last 10 min ended unwanted: 2 expired, 1 unhealthy" || flapped == nil || flapped.Token != 8 {
		t.Errorf("%q, %+v", flaps, flapped)
	}
	if flaps, flapped := flapsOf(terms[:2]); flaps != "" || flapped != nil {
		t.Errorf("one end: %q, %+v", flaps, flapped)
	}
}

func TestLsCountsNoObservers(t *testing.T) {
	r := report{
		Status: elector.Status{Election: "e", Leader: &elector.Leader{Candidate: "a"}},
		roll: []elector.CandidateStatus{
			{ID: "a", Healthy: true, Role: elector.RoleLeading}, {ID: "watcher", Healthy: true, Role: elector.RoleObserving},
		},
	}
	lines := (&output.Printer{Width: 200}).Table(electionTable([]report{r}, false))
	if !strings.Contains(lines[1], " 1/1 ") {
		t.Errorf("%q", lines)
	}
}
