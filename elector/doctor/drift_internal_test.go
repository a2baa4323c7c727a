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
	e := newExamination(protocol.KeysOf("mandate", "e"), nil, 1, 10*time.Second)
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
		"versions":   func(c *elector.CandidateStatus) { c.Version = "v2" },
	} {
		all := append([]elector.CandidateStatus{}, same...)
		change(&all[1])
		got := examined(func(e *examination) { e.drift(all) })
		if len(got) != 1 || got[0].Check != check || got[0].Level != LevelWarn || got[0].Advice == "" || !strings.Contains(got[0].Found, "the candidates differ in "+strings.TrimSuffix(check, "s")+": ") || !strings.Contains(got[0].Found, "on b") {
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

// Between the loss of a node's data and the leader's next renewal the node has no identity at all.
func TestJustEmptiedNodeIsNoOtherList(t *testing.T) {
	ids := []string{"AAAAAA", "BBBBBB", "CCCCCC"}
	var facts []registry.Facts
	leader := elector.CandidateStatus{ID: "a", Incarnation: "A"}
	lock := protocol.LockValue{Candidate: "a", Incarnation: "A", Seq: 1, Nodes: 3, Lease: time.Second, Identities: protocol.IdentitiesOf(ids)}.String()
	for i, name := range []string{"n1", "n2", "n3"} {
		f := goodFacts(name)
		f.View.ID, f.View.Holder = ids[i], lock
		facts = append(facts, f)
		leader.Nodes = append(leader.Nodes, elector.VotingNode{Name: name, Identity: ids[i]})
	}
	facts[1].View.ID, facts[1].View.Holder = "", ""
	for want, name := range map[Level]string{LevelUnknown: "n2", LevelFail: "another"} {
		facts[1].Node = name
		e := newExamination(protocol.KeysOf("mandate", "e"), facts, 2, 0)
		e.sameHere([]elector.CandidateStatus{leader})
		e.holders([]elector.CandidateStatus{leader})
		for _, got := range e.findings {
			if got.Level != want {
				t.Errorf("%s: %+v, want %s", name, got, want)
			}
		}
		if len(e.findings) != 2 {
			t.Errorf("%s: %+v", name, e.findings)
		}
	}
}

// A node that lost its data has another identity: candidates that know the former one are
// not accused of having another list. Without such a node they are.
func TestEmptiedNodeIsNoOtherList(t *testing.T) {
	voter := func(id, identity string) elector.CandidateStatus {
		return elector.CandidateStatus{ID: id, Nodes: []elector.VotingNode{{Name: "n", Identity: identity}}}
	}
	for left, want := range map[time.Duration]Level{time.Second: LevelUnknown, 0: LevelFail} {
		f := goodFacts("n")
		f.View.Newcomer = left
		e := newExamination(protocol.KeysOf("mandate", "e"), []registry.Facts{f}, 1, 0)
		e.candidates(&Report{Candidates: []elector.CandidateStatus{voter("a", "new"), voter("b", "old")}, Status: elector.Status{Nodes: []elector.NodeStatus{{Abstains: left}}}})
		if got := find(e.findings, "candidates"); got.Level != want {
			t.Errorf("abstains for %v: %+v, want %s", left, got, want)
		}
		e.findings = nil
		e.sameHere([]elector.CandidateStatus{voter("a", "old")})
		if got := find(e.findings, "nodes"); got.Level != want {
			t.Errorf("abstains for %v, one candidate: %+v, want %s", left, got, want)
		}
		e.facts[0].View.Holder = protocol.LockValue{Candidate: "a", Incarnation: "A", Seq: 1, Nodes: 1, Lease: time.Second, Identities: protocol.IdentitiesOf([]string{"old"})}.String()
		e.findings = nil
		e.holders(nil)
		if got := find(e.findings, "nodes"); got.Level != want {
			t.Errorf("abstains for %v, the leader's list: %+v, want %s", left, got, want)
		}
	}
}

// The first line of a failure names the nodes, and what their absence costs.
func TestNodesThatAreAway(t *testing.T) {
	down := func(name, msg string) registry.Facts {
		return registry.Facts{Node: name, Ping: &rediserr.NodeError{Node: name, Err: errors.New(msg)}}
	}
	const refused = "dial tcp 127.0.0.1:7: connect: connection refused"
	up, n2 := goodFacts("n1"), down("n2", refused)
	hung := registry.Facts{Node: "n3", Ping: &rediserr.NodeError{Node: "n3", Err: context.DeadlineExceeded}}
	odd := down("n3", "connection reset by peer")
	wrong := registry.Facts{Node: "n3", Ping: &rediserr.NodeError{Node: "n3", Err: answer("WRONGPASS invalid username-password pair or user is disabled.")}}
	const start = "start Redis at n2, or correct host and port"
	for want, c := range map[string]struct {
		facts  []registry.Facts
		advice string
	}{
		"1 of 3 nodes does not answer (n2: connect: connection refused): when another one fails, no leader can be elected":                                {[]registry.Facts{up, n2, up}, start},
		"2 of 3 nodes do not answer (n2: connect: connection refused; n3: no answer in time): no leader can be elected, and a leader loses its lease":     {[]registry.Facts{up, n2, hung}, start},
		"1 of 3 nodes can't be used (n3: WRONGPASS invalid username-password pair or user is disabled): when another one fails, no leader can be elected": {[]registry.Facts{up, up, wrong}, "check user and password"},
		"1 of 5 nodes does not answer (n3: connection reset by peer); 1 more may fail":                                                                    {[]registry.Facts{up, up, up, up, odd}, "bring n3 back"},
	} {
		e := newExamination(protocol.KeysOf("mandate", "e"), c.facts, len(c.facts)/2+1, 0)
		e.together()
		if got := find(e.findings, "majority"); got.Found != want || got.Advice != c.advice {
			t.Errorf("%+v\nwant %s\n%s", got, want, c.advice)
		}
	}
}

// Nodes that answer and refuse what is written count like those that are away: without a majority
// of others no leader can be elected, and the findings of single nodes do not add that up.
func TestNodesThatRefuseWritesAreNoMajority(t *testing.T) {
	full := func(name string) registry.Facts {
		f := goodFacts(name)
		f.Refused = []string{"XADD: OOM command not allowed.", "SET: OOM command not allowed."}
		return f
	}
	up, quiet, down := goodFacts("n1"), goodFacts("n1"), registry.Facts{Node: "n3", Ping: &rediserr.NodeError{Node: "n3", Err: errors.New("connection reset by peer")}}
	quiet.Refused = []string{"PUBLISH: no right"}
	const room = "give this Redis more memory, or make room"
	for name, c := range map[string]struct {
		facts        []registry.Facts
		level        Level
		want, advice string
	}{
		"two of three":        {[]registry.Facts{full("n1"), up, full("n3")}, LevelFail, "2 of 3 nodes refuse what an election writes (n1: OOM command not allowed; n3: OOM command not allowed): no other leader can be elected", room},
		"one of three":        {[]registry.Facts{full("n1"), up, up}, LevelOK, "all 3 nodes answer", ""},
		"one, and one is off": {[]registry.Facts{full("n1"), up, down}, LevelFail, "1 of 3 nodes does not answer (n3: connection reset by peer), and 1 of 3 nodes refuses what an election writes (n1: OOM", room + "; bring n3 back"},
		"only messages":       {[]registry.Facts{quiet, quiet, quiet}, LevelOK, "all 3 nodes answer", ""},
		"the only one":        {[]registry.Facts{full("n1")}, LevelOK, "one node, and it answers", ""}, // its own finding says it
	} {
		e := newExamination(protocol.KeysOf("mandate", "e"), c.facts, len(c.facts)/2+1, 0)
		e.together()
		if got := find(e.findings, "majority"); got.Level != c.level || !strings.HasPrefix(got.Found, c.want) || c.level == LevelFail && got.Advice != c.advice {
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
	if got[0].Reason != "" || got[1].Reason != elector.ReasonVanished || got[2].Reason != elector.ReasonVanished || got[3].Reason != elector.ReasonExpired || terms[0].Reason == "" {
		t.Errorf("%+v", got)
	}
}
