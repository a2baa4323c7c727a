package doctor

import (
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

func examined(do func(e *examination)) []Finding {
	e := newExamination(quorum.KeysOf("mandate", "e"), nil, 1, 10*time.Second)
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
		if len(got) != 1 || got[0].Check != check || got[0].Level != LevelWarn || got[0].Advice == "" || !strings.Contains(got[0].Found, "on b") {
			t.Errorf("%s: %+v", check, got)
		}
	}
}

// A leadership that changes again and again is a finding, planned changes are not.
func TestFlappingIsFound(t *testing.T) {
	now := time.Now()
	terms := func(reason elector.Reason, ago time.Duration) (all []elector.TermRecord) {
		for i := range 3 {
			all = append(all, elector.TermRecord{Token: uint64(9 - i), From: now.Add(-ago - time.Minute), Until: now.Add(-ago), Reason: reason})
		}
		return all
	}
	for name, c := range map[string]struct {
		terms []elector.TermRecord
		want  int
	}{
		"unhealthy": {terms(elector.ReasonUnhealthy, time.Minute), 1},
		"vanished":  {terms(elector.ReasonVanished, time.Minute), 1},
		"deploys":   {terms(elector.ReasonShutdown, time.Minute), 0},
		"long ago":  {terms(elector.ReasonUnhealthy, time.Hour), 0},
		"once":      {terms(elector.ReasonUnhealthy, time.Minute)[:1], 0},
	} {
		got := examined(func(e *examination) { e.flapping("e", c.terms, now) })
		if len(got) != c.want || c.want == 1 && (got[0].Level != LevelWarn || !strings.Contains(got[0].Advice, "mandate history e")) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A pause that only an operator ends is a finding, also while there is a leader.
func TestPauseWithoutAnEndIsFound(t *testing.T) {
	for _, c := range []struct {
		st   elector.Status
		want Level
	}{
		{elector.Status{}, ""},
		{elector.Status{Paused: true, Pause: "by ann"}, LevelWarn},
		{elector.Status{Paused: true, PauseLeft: time.Minute}, LevelOK},
	} {
		got := find(examined(func(e *examination) { e.pause("e", c.st) }), "pause")
		if got.Level != c.want {
			t.Errorf("%+v: %+v", c.st, got)
		}
	}
}

// Whether another candidate could take over is worth knowing before it is needed.
func TestCandidatesThatCannotLeadAreFound(t *testing.T) {
	leader := elector.CandidateStatus{ID: "a", Healthy: true, Role: elector.RoleLeading}
	full := elector.CandidateStatus{ID: "b", Role: elector.RoleFollowing, Detail: "OOM"}
	for _, c := range []struct {
		all  []elector.CandidateStatus
		want Level
	}{
		{[]elector.CandidateStatus{leader}, ""},
		{[]elector.CandidateStatus{leader, full}, LevelWarn},
		{[]elector.CandidateStatus{full}, LevelFail},
	} {
		got := find(examined(func(e *examination) { e.ready("e", c.all) }), "able")
		if got.Level != c.want || c.want != "" && !strings.Contains(got.Found, "b: OOM") {
			t.Errorf("%+v: %+v", c.all, got)
		}
	}
}

// Advice follows the error of a node that does not answer.
func TestAdviceFitsTheError(t *testing.T) {
	for msg, want := range map[string]string{
		"dial tcp 127.0.0.1:1: connect: connection refused":            "start Redis there",
		"MISCONF Redis is configured to save RDB snapshots, but it":    "disk",
		"LOADING Redis is loading the dataset in memory":               "wait",
		"DENIED Redis is running in protected mode":                    "protected-mode",
		"WRONGPASS invalid username-password pair or user is disabled": "password",
	} {
		f := quorum.Facts{Node: "x", Ping: &quorum.NodeError{Node: "x", Err: answer(msg)}}
		if got := find(judge(f), "reach"); got.Level != LevelFail || !strings.Contains(got.Advice, want) {
			t.Errorf("%s: %+v", msg, got)
		}
	}
}

type answer string

func (a answer) Error() string { return string(a) }
func (answer) RedisError()     {}

// A node that lost its data has another identity: candidates that know the former one are
// not accused of having another list. Without such a node they are.
func TestEmptiedNodeIsNoOtherList(t *testing.T) {
	voter := func(id, identity string) elector.CandidateStatus {
		return elector.CandidateStatus{ID: id, Nodes: []elector.VotingNode{{Name: "n", Identity: identity}}}
	}
	for left, want := range map[time.Duration]Level{time.Second: LevelUnknown, 0: LevelFail} {
		f := goodFacts("n")
		f.View.Newcomer = left
		e := newExamination(quorum.KeysOf("mandate", "e"), []quorum.Facts{f}, 1, 0)
		e.candidates(rollCall{all: []elector.CandidateStatus{voter("a", "new"), voter("b", "old")}})
		if got := find(e.findings, "candidates"); got.Level != want {
			t.Errorf("abstains for %v: %+v, want %s", left, got, want)
		}
		e.findings = nil
		e.candidates(rollCall{all: []elector.CandidateStatus{voter("a", "old")}})
		if got := find(e.findings, "candidates"); got.Level != want {
			t.Errorf("abstains for %v, one candidate: %+v, want %s", left, got, want)
		}
		e.facts[0].View.Holder = quorum.LockValue{Candidate: "a", Incarnation: "A", Seq: 1, Nodes: 1, Lease: time.Second, Identities: quorum.IdentitiesOf([]string{"old"})}.String()
		e.findings = nil
		e.holders()
		if got := find(e.findings, "nodes"); got.Level != want {
			t.Errorf("abstains for %v, the leader's list: %+v, want %s", left, got, want)
		}
	}
}
