package doctor

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
	"github.com/mandate-dev/mandate/elector/internal/registry"
)

func examined(do func(e *examination)) []Finding {
	e := newExamination(protocol.KeysOf("mandate", "e"), nil, 1, nil)
	do(e)
	return e.findings
}

// Candidates that differ in a setting are named, also while all is well.
func TestDriftIsFound(t *testing.T) {
	same := []elector.CandidateStatus{{ID: "a", Lease: time.Second, Version: "v1", Succession: "race"}, {ID: "b", Lease: time.Second, Version: "v1", Succession: "race"}, {ID: "old"}}
	if got := examined(func(e *examination) { e.drift(same) }); len(got) != 0 {
		t.Errorf("no difference, and %+v", got)
	}
	for check, change := range map[string]func(c *elector.CandidateStatus){
		"lease":      func(c *elector.CandidateStatus) { c.Lease = 3 * time.Second },
		"succession": func(c *elector.CandidateStatus) { c.Succession = "rotation" },
	} {
		all := append([]elector.CandidateStatus{}, same...)
		change(&all[1])
		got := examined(func(e *examination) { e.drift(all) })
		if len(got) != 1 || got[0].Check != check || got[0].Level != LevelWarn || got[0].Advice == "" || !strings.Contains(got[0].Found, "the candidates differ in "+check+": ") || !strings.Contains(got[0].Found, "on b") {
			t.Errorf("%s: %+v", check, got)
		}
	}
}

// Advice follows the error of a node that does not answer.
func TestAdviceFitsTheError(t *testing.T) {
	for msg, want := range map[string]string{
		"dial tcp 127.0.0.1:1: connect: connection refused":            "start Redis at x, or",
		"MISCONF Redis is configured to save RDB snapshots, but it":    "disk",
		"LOADING Redis is loading the dataset in memory":               "wait",
		"DENIED Redis is running in protected mode":                    "protected-mode",
		"WRONGPASS invalid username-password pair or user is disabled": "password",
	} {
		f := registry.Facts{Node: "x", Ping: &rediserr.NodeError{Node: "x", Err: answer(msg)}}
		if got := find(judge(f), "reach"); got.Level != LevelFail || !strings.Contains(got.Advice, want) {
			t.Errorf("%s: %+v", msg, got)
		}
	}
}

type answer string

func (a answer) Error() string { return string(a) }
func (answer) RedisError()     {}

// A node that lost its data has another identity, or none until the leader's next renewal: candidates
// that know the former one are not accused of having another list. Without such a node they are.
func TestEmptiedNodeIsNoOtherList(t *testing.T) {
	voter := func(id, identity string) elector.CandidateStatus {
		return elector.CandidateStatus{ID: id, Nodes: []elector.VotingNode{{Name: "n", Identity: identity}}}
	}
	for name, c := range map[string]struct {
		node, identity string
		left           time.Duration
		want           Level
	}{
		"abstains":          {"n", "new", time.Second, LevelUnknown},
		"has none yet":      {"n", "", 0, LevelUnknown},
		"another":           {"n", "new", 0, LevelFail},
		"another, not used": {"another", "", 0, LevelFail},
	} {
		f := goodFacts(c.node)
		f.View.ID, f.View.Newcomer = c.identity, c.left
		e := newExamination(protocol.KeysOf("mandate", "e"), []registry.Facts{f}, 1, nil)
		e.sameHere([]elector.CandidateStatus{voter("a", "old")})
		if got := find(e.findings, "nodes"); got.Level != c.want {
			t.Errorf("%s: %+v, want %s", name, got, c.want)
		}
	}
	for left, want := range map[time.Duration]Level{time.Second: LevelUnknown, 0: LevelFail} {
		got := examined(func(e *examination) {
			e.candidates(&Report{Candidates: []elector.CandidateStatus{voter("a", "new"), voter("b", "old")}, Status: elector.Status{Nodes: []elector.NodeStatus{{Abstains: left}}}})
		})
		if got := find(got, "candidates"); got.Level != want {
			t.Errorf("abstains for %v: %+v, want %s", left, got, want)
		}
	}
}

// Nodes that do not answer, and those that refuse what is written, count alike: the first line names
// them, and what their absence costs.
func TestNodesThatCannotBeUsed(t *testing.T) {
	down := func(name string, err error) registry.Facts {
		return registry.Facts{Node: name, Ping: &rediserr.NodeError{Node: name, Err: err}}
	}
	full := func(name string) registry.Facts {
		f := goodFacts(name)
		f.Refused = []string{"XADD: OOM command not allowed.", "SET: OOM command not allowed."}
		return f
	}
	up, quiet, n2 := goodFacts("n1"), goodFacts("n1"), down("n2", errors.New("dial tcp 127.0.0.1:7: connect: connection refused"))
	quiet.Refused = []string{"PUBLISH: no right"}
	hung, odd, wrong := down("n3", context.DeadlineExceeded), down("n3", errors.New("connection reset by peer")), down("n3", answer("WRONGPASS invalid username-password pair."))
	const start, room = "start Redis at n2, or correct host and port", "give this Redis more memory, or make room"
	for name, c := range map[string]struct {
		facts        []registry.Facts
		level        Level
		want, advice string
	}{
		"one is off":           {[]registry.Facts{up, n2, up}, LevelWarn, "1 of 3 nodes can't be used (n2: connect: connection refused): when another one fails, no leader can be elected", start},
		"two are off":          {[]registry.Facts{up, n2, hung}, LevelFail, "2 of 3 nodes can't be used (n2: connect: connection refused; n3: no answer in time): no leader can be elected", start},
		"password":             {[]registry.Facts{up, up, wrong}, LevelWarn, "1 of 3 nodes can't be used (n3: WRONGPASS invalid username-password pair): when another one fails, no leader can be elected", "check user and password"},
		"one of five":          {[]registry.Facts{up, up, up, up, odd}, LevelWarn, "1 of 5 nodes can't be used (n3: connection reset by peer); 1 more may fail", "bring n3 back"},
		"two are full":         {[]registry.Facts{full("n1"), up, full("n3")}, LevelFail, "2 of 3 nodes can't be used (n1: OOM command not allowed; n3: OOM command not allowed): no leader can be elected", room},
		"one, and one is off":  {[]registry.Facts{full("n1"), up, odd}, LevelFail, "2 of 3 nodes can't be used (n1: OOM command not allowed; n3: connection reset by peer): no leader can be elected", room},
		"the only one is full": {[]registry.Facts{full("n1")}, LevelOK, "one node, and it answers; while it is down there is no leader", ""},
		"only messages":        {[]registry.Facts{quiet, quiet, quiet}, LevelOK, "all 3 nodes answer; 1 may fail", ""},
	} {
		e := newExamination(protocol.KeysOf("mandate", "e"), c.facts, len(c.facts)/2+1, nil)
		e.together()
		if got := find(e.findings, "majority"); got.Level != c.level || got.Found != c.want || got.Advice != c.advice {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A leader that lives did not vanish: it has not reported the end of its term.
func TestUnreportedEnds(t *testing.T) {
	now := time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC)
	terms := []elector.TermRecord{
		{Candidate: "a", Reason: elector.ReasonVanished, From: now.Add(-time.Minute)},
		{Candidate: "a", Reason: elector.ReasonVanished, From: now.Add(-time.Hour)}, // of a process before
		{Candidate: "b", Reason: elector.ReasonVanished, From: now.Add(-time.Minute)},
		{Candidate: "a", Reason: elector.ReasonExpired, From: now.Add(-time.Minute)},
	}
	got := Unreported(terms, []elector.CandidateStatus{{ID: "a", RunningFor: 10 * time.Minute}}, now)
	if got[0].Reason != ReasonUnreported || got[1].Reason != elector.ReasonVanished || got[2].Reason != elector.ReasonVanished || got[3].Reason != elector.ReasonExpired || terms[0].Reason != elector.ReasonVanished {
		t.Errorf("%+v", got)
	}
}
