package doctor

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// What to act on first when an election has several problems.
func TestFirstFindingOfAReport(t *testing.T) {
	known := elector.NodeStatus{Node: "n", Reachable: true, Fence: 1}
	fresh, abstains, down := elector.NodeStatus{Node: "n", Reachable: true}, known, elector.NodeStatus{Node: "n3", Error: "no such host"}
	abstains.Abstains = time.Second
	candidate := func(id string, role string) elector.CandidateStatus {
		return elector.CandidateStatus{ID: id, Incarnation: id, Healthy: true, Role: role, Succession: "race", Nodes: []elector.VotingNode{{Name: "n", Identity: "x"}}}
	}
	led, follows := candidate("a", "leading"), candidate("b", "following")
	unhealthy, rests, elsewhere, priority := follows, follows, follows, follows
	unhealthy.Healthy, unhealthy.Detail = false, "probe-exec: disk full"
	rests.Role, rests.RestFor = "resting", time.Second
	elsewhere.Nodes = []elector.VotingNode{{Name: "other", Identity: "y"}}
	priority.Succession = "priority"
	lost := elector.TermRecord{Reason: elector.ReasonLost, Until: time.Now()}
	flapping := []elector.TermRecord{lost, lost, lost}
	leader := elector.Status{Leader: &elector.Leader{Candidate: "a", Incarnation: "a", Token: 7}, Nodes: []elector.NodeStatus{known}}
	vacant := func(nodes ...elector.NodeStatus) elector.Status { return elector.Status{Nodes: nodes} }
	with := func(st elector.Status, change func(*elector.Status)) elector.Status {
		change(&st)
		return st
	}
	roll := func(all ...elector.CandidateStatus) []elector.CandidateStatus { return all }
	for name, c := range map[string]struct {
		r    Report
		want string // the check; empty: nothing is wrong
	}{
		"all well":                   {Report{Status: leader, Candidates: roll(led, follows)}, ""},
		"one rests":                  {Report{Status: leader, Candidates: roll(led, rests)}, ""},
		"no roll":                    {Report{Status: leader, CandidatesErr: elector.ErrDenied}, ""},
		"unresponsive":               {Report{Status: leader, Candidates: roll(follows), Unresponsive: true}, "leader"},
		"two lead":                   {Report{Status: leader, Candidates: roll(led, candidate("c", "leading"))}, "leaders"},
		"a twin":                     {Report{Status: leader, Candidates: roll(led, follows, follows)}, "ids"},
		"no majority":                {Report{Status: vacant(known, down, down), StatusErr: elector.ErrUnreachable}, "majority"},
		"a node is down":             {Report{Status: with(leader, func(st *elector.Status) { st.Nodes = []elector.NodeStatus{known, known, down} }), Candidates: roll(led, follows)}, "majority"},
		"a node refuses everything":  {Report{Status: vacant(down), StatusErr: elector.ErrUnreachable, Writes: []Finding{{Node: "n3", Level: LevelFail, Found: "WRONGPASS"}}}, "majority"},
		"a node is full":             {Report{Status: leader, Candidates: roll(led, follows), Writes: []Finding{{Node: "n", Level: LevelFail, Found: "OOM"}}}, "majority"},
		"conflict":                   {Report{Status: with(leader, func(st *elector.Status) { st.Conflict = "x" }), Candidates: roll(led, follows)}, "locks"},
		"unknown":                    {Report{Status: vacant(fresh)}, "trace"},
		"never led":                  {Report{Status: vacant(fresh), Candidates: roll(unhealthy)}, "able"},
		"none answers":               {Report{Status: vacant(known)}, "leader"},
		"none answers, lost often":   {Report{Status: vacant(known), Terms: flapping}, "leader"},
		"only observers":             {Report{Status: vacant(known), Candidates: roll(candidate("o", "observing"))}, "able"},
		"first election":             {Report{Status: vacant(abstains), Candidates: roll(follows)}, "vote"},
		"leads elsewhere":            {Report{Status: vacant(known), Candidates: roll(leading(elsewhere))}, "nodes"},
		"leads on fewer nodes":       {Report{Status: vacant(known, known, known), Candidates: roll(leading(follows))}, "nodes"},
		"paused, no leader":          {Report{Status: with(vacant(known), func(st *elector.Status) { st.Paused = true }), Candidates: roll(follows)}, "pause"},
		"paused, and was lost often": {Report{Status: with(leader, func(st *elector.Status) { st.Paused = true }), Candidates: roll(led, follows), Terms: flapping}, "pause"},
		"lost often":                 {Report{Status: leader, Candidates: roll(led, follows), Terms: flapping}, "flapping"},
		"none can follow":            {Report{Status: leader, Candidates: roll(led, unhealthy)}, "able"},
		"other nodes":                {Report{Status: leader, Candidates: roll(led, elsewhere)}, "candidates"},
		"another succession":         {Report{Status: leader, Candidates: roll(led, priority)}, "succession"},
	} {
		c.r.Status.Election = "e"
		first := append(Problems(c.r.Findings(nil)), Finding{})[0]
		if first.Check != c.want || c.want != "" && first.Advice == "" || strings.Contains(first.Found, "2 of 1") {
			t.Errorf("%s: %+v, want %s", name, first, c.want)
		}
	}
}

func leading(c elector.CandidateStatus) elector.CandidateStatus {
	c.Role = "leading"
	return c
}

// What is true now stands before what was, and what several nodes have is one problem that names them.
func TestProblemsAreOrdered(t *testing.T) {
	got := Problems(sortFindings([]Finding{
		{Node: "n1", Check: "persistence", Level: LevelWarn, Found: "no file"}, {Check: "flapping", Level: LevelWarn, Found: "lost"}, {Check: "pause", Level: LevelOK},
		{Node: "n1", Check: "rights", Level: LevelWarn, Found: "refused"}, {Node: "n2", Check: "rights", Level: LevelWarn, Found: "refused"}, {Check: "clock", Level: LevelWarn, Found: "ahead"},
		{Check: "able", Level: LevelFail, Found: "none"},
	}))
	var found []string
	for _, f := range got {
		found = append(found, f.Found)
	}
	if want := []string{"none", "n1, n2: refused", "ahead", "lost", "n1: no file"}; !slices.Equal(found, want) {
		t.Errorf("%q", found)
	}
}
