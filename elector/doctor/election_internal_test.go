package doctor

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/fence"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// What to act on first when an election has several problems.
func TestFirstFindingOfAReport(t *testing.T) {
	known := elector.NodeStatus{Node: "n", Reachable: true, Fence: 1}
	twice := elector.NodeStatus{Node: "n", Reachable: true, Fence: 1, Identity: "x"}
	fresh, abstains, down := elector.NodeStatus{Node: "n", Reachable: true}, known, elector.NodeStatus{Node: "n3", Error: "no such host"}
	abstains.Abstains = time.Second
	candidate := func(id string, role string) elector.CandidateStatus {
		return elector.CandidateStatus{ID: id, Incarnation: id, Healthy: true, Role: role, Succession: "race", Nodes: []elector.VotingNode{{Name: "n", Identity: "x"}}}
	}
	led, follows := candidate("a", "leading"), candidate("b", "following")
	led.Lease, follows.Lease = time.Second, time.Second
	unhealthy, rests, elsewhere, priority, leased := follows, follows, follows, follows, follows
	leased.Lease = 2 * time.Second
	unhealthy.Healthy, unhealthy.Detail = false, "probe-exec: disk full"
	rests.Role, rests.RestFor = "resting", time.Second
	still := unhealthy
	still.Role, still.RestFor = rests.Role, rests.RestFor
	newer, blocked, copied := known, known, twice
	newer.Holder, newer.Foreign, newer.Protocol = "n2", "x", protocol.Version+1
	blocked.Foreign = "k holds x"
	copied.Node = "n2"
	elsewhere.Nodes = []elector.VotingNode{{Name: "other", Identity: "y"}}
	priority.Succession = "priority"
	silent := led
	silent.Nodes = []elector.VotingNode{{Name: "n", Identity: "x", SilentFor: 12 * time.Second}}
	lost := elector.TermRecord{Reason: elector.ReasonLost, Until: time.Now()}
	emptied := elector.TermRecord{Reason: elector.ReasonDataLost, Until: time.Now(), Detail: "no answer"}
	flapping := []elector.TermRecord{lost, lost, lost}
	leader := elector.Status{Leader: &elector.Leader{Candidate: "a", Incarnation: "a", Token: 7}, Nodes: []elector.NodeStatus{known}}
	vacant := func(nodes ...elector.NodeStatus) elector.Status { return elector.Status{Nodes: nodes} }
	with := func(st elector.Status, change func(*elector.Status)) elector.Status {
		change(&st)
		return st
	}
	since := func(st elector.Status, ago time.Duration) elector.Status {
		l := *st.Leader
		l.Since, st.Leader = time.Now().Add(-ago), &l
		return st
	}
	roll := func(all ...elector.CandidateStatus) []elector.CandidateStatus { return all }
	for name, c := range map[string]struct {
		r    Report
		want string // the check; empty: nothing is wrong
	}{
		"all well":                      {Report{Look: elector.Look{Status: leader, Candidates: roll(led, follows)}}, ""},
		"one rests":                     {Report{Look: elector.Look{Status: leader, Candidates: roll(led, rests)}}, ""},
		"no roll":                       {Report{Look: elector.Look{Status: leader, CandidatesErr: elector.ErrDenied}}, ""},
		"unresponsive":                  {Report{Look: elector.Look{Status: leader, Candidates: roll(follows)}, Unresponsive: true}, "leader"},
		"two lead":                      {Report{Look: elector.Look{Status: leader, Candidates: roll(led, candidate("c", "leading"))}}, "leaders"},
		"a twin":                        {Report{Look: elector.Look{Status: leader, Candidates: roll(led, follows, follows)}}, "ids"},
		"no majority":                   {Report{Look: elector.Look{Status: vacant(known, down, down), StatusErr: elector.ErrUnreachable}}, "majority"},
		"one node twice":                {Report{Look: elector.Look{Status: with(leader, func(st *elector.Status) { st.Nodes = []elector.NodeStatus{twice, twice, known} }), Candidates: roll(led, follows)}}, "same-server"},
		"a node is down":                {Report{Look: elector.Look{Status: with(leader, func(st *elector.Status) { st.Nodes = []elector.NodeStatus{known, known, down} }), Candidates: roll(led, follows)}}, "majority"},
		"open who leads":                {Report{Look: elector.Look{Status: with(vacant(known, known, down), func(st *elector.Status) { st.MayLead = &elector.Leader{Candidate: "a"} }), CandidatesErr: elector.ErrDenied}}, "majority"},
		"a node refuses everything":     {Report{Look: elector.Look{Status: vacant(down), StatusErr: elector.ErrUnreachable}, Writes: []Finding{{Node: "n3", Level: LevelFail, Found: "WRONGPASS"}}}, "majority"},
		"a node is full":                {Report{Look: elector.Look{Status: leader, Candidates: roll(led, follows)}, Writes: []Finding{{Node: "n", Level: LevelFail, Found: "OOM"}}}, "majority"},
		"conflict":                      {Report{Look: elector.Look{Status: with(leader, func(st *elector.Status) { st.Conflict = "x" }), Candidates: roll(led, follows)}}, "locks"},
		"unknown":                       {Report{Look: elector.Look{Status: vacant(fresh)}}, "trace"},
		"never led":                     {Report{Look: elector.Look{Status: vacant(fresh), Candidates: roll(unhealthy)}}, "able"},
		"none answers":                  {Report{Look: elector.Look{Status: vacant(known), Terms: []elector.TermRecord{lost}}}, "gone"},
		"none answers, lost often":      {Report{Look: elector.Look{Status: vacant(known), Terms: flapping}}, "gone"},
		"none answers, one vanished":    {Report{Look: elector.Look{Status: vacant(known), Terms: []elector.TermRecord{{Reason: elector.ReasonVanished}}}}, "gone"},
		"none for less than a day":      {Report{Look: elector.Look{Status: vacant(known), Terms: []elector.TermRecord{{Reason: elector.ReasonLost, Until: time.Now().Add(time.Minute - 24*time.Hour)}}}}, "gone"},
		"none for a day":                {Report{Look: elector.Look{Status: vacant(known), Terms: []elector.TermRecord{{Reason: elector.ReasonLost, Until: time.Now().Add(-time.Minute - 24*time.Hour)}}}}, ""},
		"none, and none ever led":       {Report{Look: elector.Look{Status: vacant(known)}}, ""},
		"a foreign lock":                {Report{Look: elector.Look{Status: with(vacant(blocked), func(st *elector.Status) { st.Blocked = "k holds x" }), Candidates: roll(follows)}}, "lock"},
		"led by another version":        {Report{Look: elector.Look{Status: with(vacant(newer), func(st *elector.Status) { st.MayLead = &elector.Leader{Candidate: "n2", Protocol: 2} }), Others: []int{2}}}, "protocol"},
		"and ours wait":                 {Report{Look: elector.Look{Status: with(vacant(newer), func(st *elector.Status) { st.MayLead = &elector.Leader{Candidate: "n2", Protocol: 2} }), Candidates: roll(unhealthy)}}, "protocol"},
		"another version waits":         {Report{Look: elector.Look{Status: leader, Candidates: roll(led, follows), Others: []int{2}}}, "protocol"},
		"only another version":          {Report{Look: elector.Look{Status: vacant(fresh), Others: []int{2}}}, "protocol"},
		"finished":                      {Report{Look: elector.Look{Status: vacant(known), Terms: []elector.TermRecord{{Reason: elector.ReasonFinished}}}}, ""},
		"finished, and one waits":       {Report{Look: elector.Look{Status: vacant(known), Candidates: roll(unhealthy), Terms: []elector.TermRecord{{Reason: elector.ReasonFinished}}}}, "able"},
		"lost often, and leads again":   {Report{Look: elector.Look{Status: since(leader, time.Hour), Candidates: roll(led, follows), Terms: flapping}}, ""},
		"emptied, and none leads":       {Report{Look: elector.Look{Status: vacant(known), Candidates: roll(follows), Terms: []elector.TermRecord{emptied}}}, "leader"},
		"copies that refuse":            {Report{Look: elector.Look{Status: vacant(twice, copied), Candidates: roll(follows)}, Writes: []Finding{{Node: "n2", Level: LevelFail, Found: "READONLY"}}}, "majority"},
		"all rest":                      {Report{Look: elector.Look{Status: vacant(known), Candidates: roll(rests), Terms: flapping}}, "able"},
		"all unhealthy":                 {Report{Look: elector.Look{Status: vacant(known), Candidates: roll(unhealthy, unhealthy), Terms: flapping}}, "able"},
		"only one":                      {Report{Look: elector.Look{Status: leader, Candidates: roll(led)}}, ""},
		"a node is out of reach":        {Report{Look: elector.Look{Status: leader, Candidates: roll(silent, follows)}}, "unreached"},
		"emptied":                       {Report{Look: elector.Look{Status: leader, Candidates: roll(led, follows), Terms: []elector.TermRecord{emptied}}}, ""},
		"first election":                {Report{Look: elector.Look{Status: vacant(abstains), Candidates: roll(follows)}}, "vote"},
		"leads elsewhere":               {Report{Look: elector.Look{Status: vacant(known), Candidates: roll(leading(elsewhere))}}, "nodes"},
		"leads on fewer nodes":          {Report{Look: elector.Look{Status: vacant(known, known, known), Candidates: roll(leading(follows))}}, "nodes"},
		"paused, no leader":             {Report{Look: elector.Look{Status: with(vacant(known), func(st *elector.Status) { st.Paused = true }), Candidates: roll(follows)}}, "pause"},
		"paused, and was lost often":    {Report{Look: elector.Look{Status: with(leader, func(st *elector.Status) { st.Paused = true }), Candidates: roll(led, follows), Terms: flapping}}, "pause"},
		"a job is overdue":              {Report{Look: elector.Look{Status: leader, Candidates: roll(led), Terms: flapping}, Ticks: []Job{{Late: time.Hour}}}, "ticks"},
		"a job is late, as others":      {Report{Look: elector.Look{Status: leader, Candidates: roll(led, follows)}, Ticks: []Job{{Late: time.Minute}}}, ""},
		"a job is blocked":              {Report{Look: elector.Look{Status: leader, Candidates: roll(led, follows)}, Ticks: []Job{{Ahead: time.Hour}}}, "ticks"},
		"overdue, for want of a leader": {Report{Look: elector.Look{Status: vacant(known), Terms: []elector.TermRecord{lost}}, Ticks: []Job{{Late: time.Hour}}}, "gone"},
		"ticks were skipped":            {Report{Look: elector.Look{Status: leader, Candidates: roll(led, follows)}, Ticks: []Job{{Taken: fence.Taken{Skipped: []fence.Skip{{Found: time.Now()}}}}}}, ""},
		"a foreign mark":                {Report{Look: elector.Look{Status: leader, Candidates: roll(led, follows)}, TicksErr: fence.ErrForeignMark}, "ticks"},
		"unread ticks":                  {Report{Look: elector.Look{Status: leader, Candidates: roll(led, follows)}, TicksErr: elector.ErrDenied}, ""},
		"lost often":                    {Report{Look: elector.Look{Status: since(leader, time.Second), Candidates: roll(led, follows), Terms: flapping}}, "flapping"},
		"none can follow":               {Report{Look: elector.Look{Status: leader, Candidates: roll(led, unhealthy)}}, "able"},
		"rests, and is unhealthy":       {Report{Look: elector.Look{Status: leader, Candidates: roll(led, still)}}, "able"},
		"other nodes":                   {Report{Look: elector.Look{Status: leader, Candidates: roll(led, elsewhere)}}, "candidates"},
		"another lease":                 {Report{Look: elector.Look{Status: leader, Candidates: roll(led, leased)}}, "lease"},
		"another succession":            {Report{Look: elector.Look{Status: leader, Candidates: roll(led, priority)}}, "succession"},
	} {
		c.r.Status.Election = "e"
		first := append(Problems(c.r.Findings(nil)), Finding{})[0]
		if first.Check != c.want || c.want != "" && first.Advice == "" || strings.Contains(first.Found, "2 of 1") || strings.HasPrefix(c.want, "protocol") && strings.Contains(first.Advice, "DEL") {
			t.Errorf("%s: %+v, want %s", name, first, c.want)
		}
		e := examining(goodFacts("n"))
		for e.election(&c.r); len(e.findings) > 0; e.findings = e.findings[1:] {
			if f := e.findings[0]; strings.Contains(f.Advice, "mandate doctor") {
				t.Errorf("%s: doctor advises doctor: %+v", name, f)
			}
		}
	}
}

// What only candidates or the history know is told with its time, and a vacant election without an able
// candidate is a failure, however often leadership was lost before.
func TestFindingsInWords(t *testing.T) {
	synctest.Test(t, findingsInWords) // always at the same time
}

func findingsInWords(t *testing.T) {
	time.Local = time.UTC // in which the sentences have their times
	now := time.Now()
	a := elector.CandidateStatus{ID: "a", Incarnation: "1", Healthy: true, Role: "leading", Lease: 10 * time.Second, Nodes: []elector.VotingNode{{Name: "n", SilentFor: 12 * time.Second}}}
	b, fresh, rests := a, a, a
	b.ID, b.Role, b.Incarnation, b.Probes = "b", "following", "2", []string{"work"}
	fresh.Nodes = []elector.VotingNode{{Name: "n", SilentFor: 2 * time.Second}}
	rests.Role, rests.RestFor = "resting", 8*time.Second
	node := elector.NodeStatus{Node: "n", Reachable: true, Fence: 1}
	down, failed := elector.NodeStatus{Node: "n"}, elector.TermRecord{Candidate: "a", Reason: elector.ReasonFailed, Detail: "exit status 3", Until: now}
	led := elector.Status{Leader: &elector.Leader{Candidate: "a", Incarnation: "1", Token: 7}, Nodes: []elector.NodeStatus{node}}
	renews, foreign := led, node
	renews.Leader = &elector.Leader{Candidate: "a", Token: 7, LeaseLeft: 8 * time.Second}
	renews.Nodes = []elector.NodeStatus{{Node: "n", Lock: protocol.LockValue{Candidate: "a", Incarnation: "1", Nodes: 1, Lease: 10 * time.Second}.String()}}
	newer := node
	newer.Holder, newer.Foreign, newer.Protocol = "n2", "k holds the lock of another version", protocol.Version+1
	silent := []elector.NodeStatus{node, {Node: "n2", Error: "no answer in time"}, {Node: "n3", Error: "no answer in time"}}
	foreign.Foreign, foreign.Abstains = `mandate:{e}:lock holds the value "x", which no candidate wrote`, 1600*time.Millisecond
	at := now.Add(-20 * time.Minute)
	lost := func(ago time.Duration) elector.TermRecord {
		return elector.TermRecord{Reason: elector.ReasonLost, Until: now.Add(-ago)}
	}
	said := map[string]Finding{}
	for name, c := range map[string]struct {
		r     Report
		check string
		level Level
	}{
		"leads unprobed": {Report{Look: elector.Look{Status: led, Candidates: []elector.CandidateStatus{a, b}}}, "leader", LevelOK},
		"answers nobody": {Report{Look: elector.Look{Status: led, Candidates: []elector.CandidateStatus{a, b}}}, "unreached", LevelWarn},
		"answers late":   {Report{Look: elector.Look{Status: led, Candidates: []elector.CandidateStatus{fresh}}}, "unreached", ""},
		"is down itself": {Report{Look: elector.Look{Status: elector.Status{Nodes: []elector.NodeStatus{down}}, Candidates: []elector.CandidateStatus{a}}}, "unreached", ""},
		"rests":          {Report{Look: elector.Look{Status: elector.Status{Nodes: []elector.NodeStatus{node}}, Candidates: []elector.CandidateStatus{rests}}}, "able", LevelFail},
		"unresponsive":   {Report{Look: elector.Look{Status: renews, At: now}, Unresponsive: true}, "leader", LevelWarn},
		"abstains":       {Report{Look: elector.Look{Status: elector.Status{Nodes: []elector.NodeStatus{foreign}}}}, "vote", LevelFail},
		"a foreign lock": {Report{Look: elector.Look{Status: elector.Status{Nodes: []elector.NodeStatus{foreign}}}}, "lock", LevelFail},
		"lost all data":  {Report{Look: elector.Look{Terms: []elector.TermRecord{{Reason: elector.ReasonDataLost, Until: at}}}}, "data", LevelWarn},
		"leads newer":    {Report{Look: elector.Look{Status: elector.Status{Nodes: []elector.NodeStatus{newer}}, Others: []int{2, 2}}}, "protocol", LevelWarn},
		"waits newer":    {Report{Look: elector.Look{Status: led, Others: []int{2, 2}}}, "protocol", LevelWarn},
		"two are silent": {Report{Look: elector.Look{Status: elector.Status{Nodes: silent}, StatusErr: elector.ErrUnreachable}}, "majority", LevelFail},
		"fails in a row": {
			Report{Look: elector.Look{Terms: []elector.TermRecord{failed, failed, failed}}}, "flapping", LevelWarn,
		},
		"vanishes, and just now": {
			Report{Look: elector.Look{Terms: []elector.TermRecord{
				{Reason: elector.ReasonExpired, Until: now}, {Reason: elector.ReasonExpired, Until: now.Add(-flapsIn)},
				{Reason: elector.ReasonVanished, From: now},
			}}}, "flapping", LevelWarn,
		},
		"ends as planned": {
			Report{Look: elector.Look{Terms: []elector.TermRecord{
				lost(0), lost(flapsIn), lost(flapsIn + time.Second), {Current: true, Reason: elector.ReasonLost},
				{Reason: elector.ReasonShutdown, Until: now}, {Reason: elector.ReasonResigned, Until: now},
			}}}, "flapping", "",
		},
		"fails in each way": { // the newest first
			Report{Look: elector.Look{Terms: []elector.TermRecord{
				{Reason: elector.ReasonUnhealthy, Detail: "disk full", Until: now}, {Reason: elector.ReasonExpired, Until: now}, {Reason: elector.ReasonCrashed, Detail: "killed", Until: now},
			}}}, "flapping", LevelWarn,
		},
	} {
		if said[name] = find(c.r.Findings(nil), c.check); said[name].Level != c.level {
			t.Errorf("%s: %+v, want %s", name, said[name], c.level)
		}
	}
	sentences(t, said)
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

func examined(do func(e *examination)) []Finding {
	e := newExamination(protocol.KeysOf("mandate", "e"), 1, nil)
	do(e)
	return e.findings
}

// While the replaced node is down its identity may not be known: who still lists it is named all the same, because
// deploying.md lets nobody replace the next node before all have the new list.
func TestReplacedNodeIsNamed(t *testing.T) {
	voter := func(id, old string) elector.CandidateStatus {
		return elector.CandidateStatus{ID: id, Healthy: true, Role: "following", Lease: time.Second, Nodes: []elector.VotingNode{{Name: "n1", Identity: "x"}, {Name: "n2", Identity: "y"}, {Name: "n3", Identity: old, SilentFor: time.Minute}}}
	}
	renewed := voter("c", "")
	renewed.Nodes[2] = elector.VotingNode{Name: "n4", Identity: "z"}
	r := Report{Look: elector.Look{Candidates: []elector.CandidateStatus{renewed, voter("a", ""), voter("b", "")}}}
	r.Nodes = []elector.NodeStatus{{Node: "n1"}, {Node: "n2"}, {Node: "n4"}}
	for name, list := range map[string][]elector.CandidateStatus{"one is new": r.Candidates, "one is old": {renewed, renewed, voter("a", "")}, "one leads": {voter("a", ""), renewed}} {
		r.Candidates = list
		e := newExamination(protocol.KeysOf("mandate", "e"), 2, nil)
		e.candidates(&r)
		e.refusals(&r)
		got := find(e.findings, "candidates")
		if got.Level != LevelWarn || got.Found != "a still has n3 in its list, and c has n4 in its place" || got.Advice != "unless these are one server: restart a with the list of c" || find(e.findings, "unreached").Check != "" {
			t.Errorf("%s: %+v", name, e.findings)
		}
	}
	// While the new node is not up, nobody is told to go back; two names of one server that is down are no two lists.
	starts, alias := voter("b", "z"), voter("d", "")
	starts.Nodes[2].Name, starts.Nodes[2].Identity, alias.Nodes[2].Name = "n4", "", "localhost"
	for want, list := range map[Level][]elector.CandidateStatus{LevelWarn: {voter("a", "w"), starts}, LevelUnknown: {voter("a", ""), alias}} {
		r.Candidates = list
		got := find(examined(func(e *examination) { e.candidates(&r) }), "candidates")
		if got.Level != want || strings.Contains(got.Advice, "restart") {
			t.Errorf("%+v", got)
		}
	}
	r.Candidates = []elector.CandidateStatus{renewed, renewed}
	if got := examined(func(e *examination) { e.candidates(&r) }); find(got, "candidates").Level != LevelOK {
		t.Errorf("all have the new list: %+v", got)
	}
}

// Who leads by a forgotten list is named with its process, if a candidate waits with the list that was asked for.
func TestForgottenLeaderIsNamed(t *testing.T) {
	old := elector.CandidateStatus{ID: "old", Host: "h", PID: 7, Role: "leading", Healthy: true, Nodes: []elector.VotingNode{{Name: "n9", Identity: "x"}}}
	waits := elector.CandidateStatus{ID: "a", Role: "following", Healthy: true, Nodes: []elector.VotingNode{{Name: "n1", Identity: "x"}}}
	r := Report{Look: elector.Look{Candidates: []elector.CandidateStatus{old, waits}, Terms: []elector.TermRecord{{Until: time.Now()}}}}
	r.Nodes = []elector.NodeStatus{{Node: "n1", Reachable: true, Fence: 1, Identity: "x"}}
	if got := find(r.Findings(nil), "nodes"); got.Advice != "stop old (process 7 on host h): a waits with the nodes given here" {
		t.Errorf("%+v", got)
	}
	r.Candidates = r.Candidates[:1]
	if got := find(r.Findings(nil), "nodes"); got.Advice != sameHere {
		t.Errorf("%+v", got)
	}
}

// Who may read less than all is told so, with the user and what was not seen, and never that nothing is wrong.
func TestWhatIsNotSeenIsSaid(t *testing.T) {
	poor := goodFacts("n")
	denied := &rediserr.NodeError{Node: "n", Err: answer("NOPERM no info")}
	poor.Info, poor.Conf, poor.InfoErr, poor.ConfErr = nil, nil, denied, denied
	e := examining(poor)
	e.user = "user op"
	e.nodes()
	if got := find(e.finish(), CheckUnseen); got.Level != LevelUnknown || got.Found != "4 checks need more rights than user op has: persistence, eviction, failover, version" {
		t.Errorf("%+v", got)
	}
	if got := find(judge(goodFacts("n")), CheckUnseen); got.Check != "" {
		t.Errorf("with all rights: %+v", got)
	}
}

// doctor says no less than status: what could not be read beside PING is its problem, too.
func TestDoctorSaysNoLessThanStatus(t *testing.T) {
	e := examining(goodFacts("n1"), goodFacts("n2"), goodFacts("n3"))
	r := &Report{Look: elector.Look{StatusErr: elector.ErrUnreachable}}
	for _, name := range []string{"n1", "n2", "n3"} {
		r.Nodes = append(r.Nodes, elector.NodeStatus{Node: name, Reachable: name == "n1", Error: "no answer in time"})
	}
	e.nodes()
	e.reachable(r)
	if got := find(e.finish(), "majority"); got.Level != LevelFail || got.Found != "2 of 3 nodes can't be read (n2, n3: no answer in time): the leader is unknown" {
		t.Errorf("%+v", got)
	}
}

// A node that answers reads and PING, and not what writes, holds it back: that is named, and no network is suspected.
func TestHeldBackWritesAreNamed(t *testing.T) {
	late := &rediserr.NodeError{Node: "n2", Err: context.DeadlineExceeded}
	r := Report{Look: elector.Look{Candidates: []elector.CandidateStatus{{ID: "a", Role: "following", Healthy: true, Lease: time.Second, Nodes: []elector.VotingNode{{Name: "n2", SilentFor: time.Minute}}}}}}
	for _, name := range []string{"n1", "n2", "n3"} {
		r.Nodes = append(r.Nodes, elector.NodeStatus{Node: name, Reachable: true, Fence: 1})
		r.Writes = append(r.Writes, Finding{Node: name, Level: LevelUnknown, late: name != "n1"})
	}
	got := r.Findings(nil)
	if f := find(got, "majority"); f.Level != LevelFail || f.Advice != unpause || !strings.Contains(f.Found, "n2, n3: it answers reads, and holds writes back") || find(got, "unreached").Check != "" {
		t.Errorf("%+v", got)
	}
	e := examining(goodFacts("n1"), goodFacts("n2"), goodFacts("n3"))
	r.Writes, r.Nodes[1].Reachable, r.Nodes[1].Err, r.Nodes[1].Error = nil, false, late, "no answer in time"
	e.held(&r)
	e.reachable(&r)
	if f := find(e.findings, "majority"); f.Level != LevelWarn || f.Advice != unpause || find(e.findings, "reach").Check != "" {
		t.Errorf("%+v", e.findings)
	}
}

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
		got := examined(func(e *examination) {
			here := elector.NodeStatus{Node: c.node, Reachable: true, Identity: c.identity, Abstains: c.left}
			e.sameHere([]elector.NodeStatus{here}, []elector.CandidateStatus{voter("a", "old")})
		})
		if got := find(got, "nodes"); got.Level != c.want {
			t.Errorf("%s: %+v, want %s", name, got, c.want)
		}
	}
	elsewhere := voter("b", "old")
	elsewhere.Nodes[0].Name = "another"
	for _, c := range []struct {
		other elector.CandidateStatus
		left  time.Duration
		want  Level
	}{{elsewhere, time.Second, LevelUnknown}, {elsewhere, 0, LevelFail}, {voter("b", "old"), 0, LevelUnknown}} {
		got := examined(func(e *examination) {
			e.candidates(&Report{Look: elector.Look{Candidates: []elector.CandidateStatus{voter("a", "new"), c.other}, Status: elector.Status{Nodes: []elector.NodeStatus{{Abstains: c.left}}}}})
		})
		if got := find(got, "candidates"); got.Level != c.want {
			t.Errorf("%s abstains for %v: %+v, want %s", c.other.Nodes[0].Name, c.left, got, c.want)
		}
	}
}

// Copies of a node are named together with what ends that; replicas are not: they are to be promoted, or not listed.
func TestCopiesOfANode(t *testing.T) {
	for role, want := range map[string]string{"master": "n2, n3: its data are a copy of those of n1: ", "slave": ""} {
		r, e := &Report{}, examining(goodFacts("n1"), goodFacts("n2"), goodFacts("n3"))
		for _, f := range e.facts {
			r.Nodes = append(r.Nodes, elector.NodeStatus{Node: f.Node, Identity: "x", Reachable: true, Fence: 1})
		}
		e.facts[0].Info["role"] = role
		e.sameServer(r)
		found := ""
		for _, f := range Merge(e.findings) {
			found += f.Node + ": " + f.Found
		}
		if !strings.HasPrefix(found, want) || want == "" && found != "" {
			t.Errorf("%s: %q", role, found)
		}
		seen := Problems(r.Findings(nil))
		if len(seen) == 0 || seen[0].Found != "n2, n3: the server of n1, or a copy of its data" {
			t.Errorf("status: %+v", seen)
		}
	}
}

// The node that refuses is named once, with all whom it refuses, and a majority of such nodes is a failure.
func TestRefusals(t *testing.T) {
	node := func(name, refusal, remedy string) elector.VotingNode {
		return elector.VotingNode{Name: name, Refusal: refusal, Remedy: remedy}
	}
	roll := []elector.CandidateStatus{
		{ID: "a", Nodes: []elector.VotingNode{node("n1", "", ""), node("n2", "ERR 'pexpire'", "ACL SETUSER w +pexpire"), node("n3", "", "")}},
		{ID: "b", Nodes: []elector.VotingNode{node("n1", "", ""), node("n2", "ERR 'set'", "other"), node("n3", "OOM command not allowed", "")}},
	}
	for of, want := range map[int]Level{1: LevelWarn, 2: LevelFail} {
		e := &examination{}
		e.refusals(&Report{Look: elector.Look{Candidates: roll[:of], Status: elector.Status{Nodes: make([]elector.NodeStatus, 3)}}})
		if len(e.findings) != of || e.findings[0].Level != want || e.findings[0].Node != "n2" {
			t.Errorf("%d of 3: %+v", of, e.findings)
		}
		if of == 2 && (e.findings[0].Found != "refuses a, b: ERR 'pexpire'" || e.findings[0].Advice != "ACL SETUSER w +pexpire" || e.findings[1].Advice != remedy("n3", "OOM ")) {
			t.Errorf("%+v", e.findings)
		}
	}
}

// Only a leader that is missing, and neither renews nor is replaced, is accused.
func TestUnresponsiveLeader(t *testing.T) {
	was := elector.Leader{Candidate: "a", Incarnation: "1", Token: 7, LeaseLeft: 8 * time.Second}
	later := func(change func(*elector.Leader)) *elector.Leader {
		l := was
		l.LeaseLeft -= time.Millisecond
		change(&l)
		return &l
	}
	for name, c := range map[string]struct {
		now     *elector.Leader
		elapsed time.Duration
		want    bool
	}{
		"as it was":         {later(func(*elector.Leader) {}), time.Millisecond, true},
		"renewed":           {later(func(l *elector.Leader) { l.LeaseLeft = 9 * time.Second }), time.Millisecond, false},
		"next term":         {later(func(l *elector.Leader) { l.Token++ }), time.Millisecond, false},
		"replaced":          {later(func(l *elector.Leader) { l.Incarnation = "2" }), time.Millisecond, false},
		"released":          {nil, 7 * time.Second, false},
		"its lease expired": {nil, 8 * time.Second, true},
	} {
		if got := stuck(was, c.now, c.elapsed); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if answers(was, []elector.CandidateStatus{{ID: "a", Incarnation: "2"}}) || !answers(was, []elector.CandidateStatus{{ID: "a", Incarnation: "1"}}) {
		t.Error("two lives of one id were taken for one")
	}
	if !answers(elector.Leader{Candidate: "a"}, nil) || !answers(was, []elector.CandidateStatus{{ID: "a"}}) {
		t.Error("a version without incarnations was accused")
	}
}
