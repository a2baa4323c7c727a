package doctor

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/lease"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
	"github.com/mandate-dev/mandate/elector/proof/servertest"
)

// goodFacts are those of a node about which nothing is to be said.
func goodFacts(name string) facts {
	return facts{
		Node: name, RTT: time.Millisecond, Delivery: time.Millisecond,
		Info: map[string]string{
			"redis_version": "7.2.4", "run_id": "run-" + name, "role": "master", "connected_slaves": "0",
			"maxmemory": "0", "maxmemory_policy": "noeviction", "used_memory": "1000000", "aof_enabled": "1",
		},
		Conf: map[string]string{"appendonly": "yes", "appendfsync": "always"},
	}
}

// examining is an examination of these nodes that has not begun to judge.
func examining(facts ...facts) *examination {
	e := newExamination(protocol.KeysOf("mandate", "e"), len(facts)/2+1, nil)
	e.facts, e.timing = facts, lease.Timing{Lease: 10 * time.Second}.WithDefaults()
	return e
}

func judge(facts ...facts) []Finding {
	e := examining(facts...)
	e.nodes()
	return e.findings
}

var update = flag.Bool("update", false, "write testdata/findings.txt")

// sentences compares findings with what testdata/findings.txt has for this test: all sentences stand there.
func sentences(t *testing.T, said map[string]Finding) {
	t.Helper()
	const file = "testdata/findings.txt"
	text, err := os.ReadFile(file)
	servertest.Must(t, err)
	was := map[string]string{} // by test
	for part := range strings.SplitSeq(strings.TrimPrefix(string(text), "# "), "\n# ") {
		name, lines, _ := strings.Cut(part, "\n")
		was[name] = lines
	}
	var now strings.Builder
	for _, name := range slices.Sorted(maps.Keys(said)) {
		fmt.Fprintf(&now, "%s: %s\n", name, said[name].Found)
		if advice := said[name].Advice; advice != "" {
			fmt.Fprintf(&now, "\t%s\n", advice)
		}
	}
	if *update {
		was[t.Name()] = now.String()
		var all strings.Builder
		delete(was, "")
		for _, name := range slices.Sorted(maps.Keys(was)) {
			fmt.Fprintf(&all, "# %s\n%s\n", name, strings.TrimSuffix(was[name], "\n"))
		}
		err = os.WriteFile(file, []byte(all.String()), 0o600)
	} else if strings.TrimSpace(was[t.Name()]) != strings.TrimSpace(now.String()) {
		err = fmt.Errorf("%s (go test ./elector/doctor -update writes it anew) has\n%s\nand the findings say\n%s", file, was[t.Name()], &now)
	}
	if err != nil {
		t.Error(err)
	}
}

func find(findings []Finding, check string) Finding {
	for _, f := range findings {
		if f.Check == check {
			return f
		}
	}
	return Finding{}
}

func TestGoodNodesNeedNoAdvice(t *testing.T) {
	for _, f := range judge(goodFacts("a"), goodFacts("b"), goodFacts("c")) {
		if f.Level != LevelOK || f.Found == "" || f.Advice != "" {
			t.Errorf("%+v", f)
		}
	}
}

// A finding about one node: its check and its level; what it says is in testdata/findings.txt.
func TestFindingsOfANode(t *testing.T) {
	info := func(kv ...string) func(*facts) {
		return func(f *facts) {
			for i := 0; i < len(kv); i += 2 {
				f.Info[kv[i]] = kv[i+1]
			}
		}
	}
	infoText := func(lines string) func(*facts) { return func(f *facts) { f.Info = infoFields(lines) } }
	noInfo := func(f *facts) { f.Info, f.InfoErr = nil, errors.New("NOPERM") }
	noConf := func(f *facts) { f.Conf, f.ConfErr = nil, errors.New("NOPERM") }
	answers := func(err string) func(*facts) {
		return func(f *facts) { f.Ping = &rediserr.NodeError{Node: "x", Err: answer(err)} }
	}
	refuses := func(commands ...string) func(*facts) { return func(f *facts) { f.Refused = commands } }
	said := map[string]Finding{}
	for name, c := range map[string]struct {
		change func(*facts)
		check  string
		level  Level
	}{
		"down":             {func(f *facts) { f.Ping = errors.New("refused") }, "majority", LevelFail},
		"far":              {func(f *facts) { f.RTT = 501 * time.Millisecond }, "reach", LevelWarn},
		"just near enough": {func(f *facts) { f.RTT = 500 * time.Millisecond }, "reach", LevelOK},
		"too far":          {func(f *facts) { f.RTT = 2 * time.Second }, "reach", LevelFail},
		"old":              {info("redis_version", "5.0.7"), "version", LevelWarn},
		"no version":       {noInfo, "version", LevelUnknown},
		"no scripts":       {func(f *facts) { f.EvalErr = errors.New("NOPERM") }, "rights", LevelFail},
		"no set":           {refuses("SET: NOPERM no", "XADD: no"), "rights", LevelFail},
		"no history":       {refuses("XADD: NOPERM no"), "rights", LevelWarn},
		"no group rights":  {refuses("HSET: NOPERM no"), "rights", LevelWarn},
		"full for lookers": {func(f *facts) {
			f.LooksOnly, f.EvalErr, f.Refused = true, errors.New("NOPERM"), []string{"SET: OOM command"}
		}, "rights", LevelFail},
		"slow":              {func(f *facts) { f.RTT, f.EvalErr = 101*time.Millisecond, context.DeadlineExceeded }, "rights", LevelUnknown},
		"answers PING":      {func(f *facts) { f.EvalErr = context.DeadlineExceeded }, "rights", LevelFail},
		"answers PING only": {func(f *facts) { f.EvalErr, f.ReceiveErr = context.DeadlineExceeded, context.DeadlineExceeded }, "messages", LevelUnknown},
		"deaf":              {func(f *facts) { f.ReceiveErr = errors.New("NOPERM No permissions to access a channel") }, "messages", LevelWarn},
		"replica":           {info("role", "slave", "master_host", "10.0.0.2", "master_port", "6379"), "failover", LevelFail},
		"cluster by redis":  {info("cluster_enabled", "1"), "failover", LevelFail},
		"failover unknown":  {noInfo, "failover", LevelUnknown},
		"sentinel":          {func(f *facts) { f.ViaSentinel = true }, "failover", LevelWarn},
		"cluster":           {func(f *facts) { f.Cluster = true }, "failover", LevelWarn},
		"writes need one": {func(f *facts) {
			f.ViaSentinel, f.Info["min_slaves_good_slaves"] = true, "0"
		}, "failover", LevelOK},
		"no aof":              {func(f *facts) { f.Conf["appendonly"] = "no" }, "persistence", LevelWarn},
		"no aof by info":      {func(f *facts) { noConf(f); f.Info["aof_enabled"] = "0" }, "persistence", LevelWarn},
		"aof by info":         {noConf, "persistence", LevelOK},
		"aof unknown":         {func(f *facts) { noConf(f); noInfo(f) }, "persistence", LevelUnknown},
		"never synced":        {func(f *facts) { f.Conf["appendfsync"] = "no" }, "persistence", LevelWarn},
		"each second":         {func(f *facts) { f.Conf["appendfsync"] = "everysec" }, "persistence", LevelOK},
		"cache":               {info("maxmemory", "2000000", "maxmemory_policy", "volatile-lru"), "eviction", LevelFail},
		"cache unlimited":     {info("maxmemory_policy", "allkeys-lru"), "eviction", LevelOK},
		"full":                {info("maxmemory", "1050000"), "eviction", LevelWarn},
		"eviction unknown":    {noInfo, "eviction", LevelUnknown},
		"clock":               {func(f *facts) { f.Skew = -3 * time.Second }, "clock", LevelWarn},
		"a replica elsewhere": {info("role", "replica", "master_host", "::1", "master_port", "1"), "failover", LevelFail}, // so Dragonfly calls it,
		"a cache elsewhere":   {info("maxmemory", "2000000", "maxmemory_policy", "eviction"), "eviction", LevelFail},      // and this
		"may do nothing": {func(f *facts) {
			f.EvalErr = &rediserr.NodeError{Node: "x", User: "op", Err: errors.New("NOPERM this user has no permissions to run the 'get' command")}
		}, "rights", LevelFail},

		"refuses as a replica": {refuses("SET: READONLY You can't write"), "rights", LevelFail},
		"refuses in a cluster": {refuses("MOVED 1 a:1"), "rights", LevelWarn},
		"refuses while busy":   {refuses("BUSY Redis is busy running a script"), "rights", LevelWarn},
		"refuses more clients": {refuses("ERR max number of clients reached"), "rights", LevelWarn},
		"refuses for memory":   {refuses("SET: OOM command not allowed"), "rights", LevelFail},
		"refuses for its disk": {refuses("SET: MISCONF Redis is configured"), "rights", LevelFail},
		"refuses, and loads":   {refuses("LOADING Redis is loading"), "rights", LevelWarn},
		"refuses this user":    {refuses("NOPERM this user"), "rights", LevelWarn},

		"answers no dial":     {answers("dial tcp 127.0.0.1:1: connect: connection refused"), "majority", LevelFail},
		"answers MISCONF":     {answers("MISCONF Redis is configured to save RDB snapshots, but it"), "majority", LevelFail},
		"answers LOADING":     {answers("LOADING Redis is loading the dataset in memory"), "majority", LevelFail},
		"answers DENIED":      {answers("DENIED Redis is running in protected mode"), "majority", LevelFail},
		"answers NOREPLICAS":  {answers("NOREPLICAS Not enough good replicas to write"), "majority", LevelFail},
		"answers CLUSTERDOWN": {answers("CLUSTERDOWN The cluster is down"), "majority", LevelFail},
		"answers max clients": {answers("ERR max number of clients reached"), "majority", LevelFail},
		"answers oddly":       {answers("something that nobody knows"), "majority", LevelFail},
		"answers WRONGPASS":   {answers("WRONGPASS invalid username-password pair or user is disabled"), "majority", LevelFail},

		// The relevant lines of INFO: recorded from Debian's Redis and Valkey, and for the others written as their sources
		// print them (docs/servers.md).
		"is Redis 7":        {infoText("# Server\r\nredis_version:7.0.15\r\nredis_git_sha1:00000000\r\nredis_mode:standalone\r\nos:Linux 6.1 x86_64\r\n"), "version", LevelOK},
		"is Redis 6":        {infoText("# Server\r\nredis_version:6.2.14\r\nredis_mode:standalone\r\n"), "version", LevelWarn},
		"is Valkey":         {infoText("# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1\r\nserver_mode:standalone\r\nos:Linux 6.1 x86_64\r\n"), "version", LevelOK},
		"is Dragonfly":      {infoText("# Server\r\nredis_version:7.4.0\r\ndragonfly_version:df-v1.40.1\r\nredis_mode:standalone\r\narch_bits:64\r\n"), "version", LevelWarn},
		"is Garnet":         {infoText("# Server\r\ngarnet_version:1.0.84\r\nserver_name:garnet\r\nos:Unix 6.1\r\nrun_id:abc\r\nredis_version:7.4.3\r\nredis_mode:standalone\r\n"), "version", LevelWarn},
		"is another fork":   {infoText("# Server\r\nredis_version:7.2.4\r\nserver_name:redthing\r\nredthing_version:1.2\r\n"), "version", LevelWarn},
		"is a fork without": {infoText("# Server\r\nredis_version:7.2.4\r\nserver_name:redthing\r\n"), "version", LevelWarn},
		"is what it hides":  {infoText("# Server\r\nredis_mode:standalone\r\n"), "version", LevelUnknown},
	} {
		f := goodFacts("a")
		f.Info, f.Conf = maps.Clone(f.Info), maps.Clone(f.Conf)
		c.change(&f)
		got := find(judge(f), c.check)
		if got.Level != c.level {
			t.Errorf("%s: %+v, want %s", name, got, c.level)
		}
		if (got.Level == LevelWarn || got.Level == LevelFail) && got.Advice == "" && name != "down" && name != "answers oddly" {
			t.Errorf("%s: it does not say what to do: %+v", name, got)
		}
		said[name] = got
	}
	sentences(t, said)
}

func TestFindingsOfAllTogether(t *testing.T) {
	twin := goodFacts("b")
	twin.Info = map[string]string{"run_id": "run-a"}
	if got := find(judge(goodFacts("a"), twin, goodFacts("c")), "same-server"); got.Level != LevelFail {
		t.Errorf("one server twice: %+v", got)
	}
	master, replica := goodFacts("a"), goodFacts("b")
	master.Info["master_replid"], replica.Info["master_replid"], replica.Info["role"], replica.Refused = "x", "x", "slave", []string{"SET: READONLY"}
	for _, check := range []string{"failover", "rights", "majority"} {
		if got := find(judge(replica, goodFacts("c"), master), check); !strings.Contains(got.Advice, "list independent servers") {
			t.Errorf("a master and its replica: %+v", got)
		}
	}
	if !LevelFail.Worse(LevelWarn) || !LevelWarn.Worse(LevelNote) || !LevelNote.Worse(LevelUnknown) || !LevelUnknown.Worse(LevelOK) || LevelOK.Worse(LevelOK) {
		t.Error("the levels are out of order")
	}
}

// Each bound is where the verdict changes: what is just within it, and what is just beyond.
func TestBoundsOfVerdicts(t *testing.T) {
	now := time.Now()
	led := elector.Status{Leader: &elector.Leader{Candidate: "a", Token: 7, Since: now}, Nodes: []elector.NodeStatus{{Node: "n", Reachable: true, Fence: 1}}}
	ended := func(reason elector.Reason, ago time.Duration, n int) Report {
		return Report{Look: elector.Look{Status: led, Terms: slices.Repeat([]elector.TermRecord{{Reason: reason, Until: now.Add(-ago)}}, n)}}
	}
	leads := func(r Report, ago time.Duration) Report {
		l := *r.Leader
		l.Since, r.Leader = now.Add(-ago), &l
		return r
	}
	job := func(j Job) Report { return Report{Look: elector.Look{Status: led}, Ticks: []Job{j}} }
	silent := func(d time.Duration) Report {
		nodes := []elector.VotingNode{{Name: "n", SilentFor: d}}
		return Report{Look: elector.Look{Status: led, Candidates: []elector.CandidateStatus{{ID: "a", Role: "leading", Healthy: true, Lease: 3 * time.Second, Nodes: nodes}}}}
	}
	renewed := func(ago time.Duration) Report {
		lock := protocol.LockValue{Candidate: "a", Incarnation: "1", Nodes: 1, Lease: 16 * time.Second}.String()
		l := elector.Leader{Candidate: "a", LeaseLeft: 16*time.Second - ago}
		return Report{Look: elector.Look{Status: elector.Status{Leader: &l, Nodes: []elector.NodeStatus{{Node: "n", Reachable: true, Lock: lock}}}, At: now}, Unresponsive: true}
	}
	const ms = time.Millisecond
	for _, c := range []struct {
		name           string
		within, beyond Report
		check          string
		before, after  Level
	}{
		{"a tick is overdue after a minute", job(Job{Late: time.Minute}), job(Job{Late: time.Minute + ms}), "ticks", "", LevelWarn},
		{"a mark in the future blocks", job(Job{}), job(Job{Ahead: ms}), "ticks", "", LevelWarn},
		{"a loss of data is news for an hour", ended(elector.ReasonDataLost, time.Hour-time.Second, 1), ended(elector.ReasonDataLost, time.Hour, 1), "data", LevelNote, ""},
		{"two ends are no flapping", ended(elector.ReasonFailed, 0, 2), ended(elector.ReasonFailed, 0, 3), "flapping", "", LevelWarn},
		{"ends are counted for ten minutes", ended(elector.ReasonFailed, 10*time.Minute-time.Second, 3), ended(elector.ReasonFailed, 10*time.Minute+ms, 3), "flapping", LevelWarn, ""},
		{"it is over after 200 s", leads(ended(elector.ReasonFailed, 0, 3), 199*time.Second), leads(ended(elector.ReasonFailed, 0, 3), 201*time.Second), "flapping", LevelWarn, LevelNote},
		{"a node is out of reach after a lease", silent(3*time.Second - ms), silent(3 * time.Second), "unreached", "", LevelWarn},
	} {
		for r, want := range map[*Report]Level{&c.within: c.before, &c.beyond: c.after} {
			if got := find(r.Findings(nil), c.check); got.Level != want {
				t.Errorf("%s: %+v, want %q", c.name, got, want)
			}
		}
	}
	for ago, want := range map[time.Duration]string{4 * time.Second: "it has just died, or does not receive requests", 5 * time.Second: "it may hang or be dead"} {
		r := renewed(ago)
		if got := find(r.Findings(nil), "leader"); !strings.Contains(got.Found, want) {
			t.Errorf("renewed %v ago: %+v", ago, got)
		}
	}
	skew, used := goodFacts("n"), goodFacts("n")
	for by, want := range map[time.Duration]Level{time.Second: LevelOK, time.Second + ms: LevelWarn, -time.Second - ms: LevelWarn} {
		skew.Skew = by
		if got := find(judge(skew), "clock"); got.Level != want {
			t.Errorf("a clock that differs by %v: %+v", by, got)
		}
	}
	for limit, want := range map[string]Level{"1111112": LevelOK, "1111110": LevelWarn} { // of which 1000000 are used
		used.Info["maxmemory"] = limit
		if got := find(judge(used), "eviction"); got.Level != want {
			t.Errorf("%s bytes at most: %+v", limit, got)
		}
	}
}

type answer string

func (a answer) Error() string { return string(a) }
func (answer) RedisError()     {}

// A node that answers in 306 ms is slow, and lacks no right.
func TestSlowNodeIsNotWithoutRights(t *testing.T) {
	f, late := goodFacts("a"), &rediserr.NodeError{Node: "a", Err: context.DeadlineExceeded}
	f.RTT, f.Info, f.Conf = 306*time.Millisecond, nil, nil
	f.EvalErr, f.InfoErr, f.ConfErr, f.SkewErr, f.ReceiveErr = late, late, late, late, late
	for _, got := range judge(f) {
		if got.Level.Worse(LevelUnknown) || strings.Contains(got.Advice, "grant") {
			t.Errorf("%+v", got)
		}
	}
}

// What a slow node holds is not to be deleted, nor what this user may not read.
func TestWhatCannotBeReadIsNoForeignKey(t *testing.T) {
	for _, c := range []struct {
		err         error
		check, says string
	}{
		{context.DeadlineExceeded, "reach", "306ms"},
		{answer("NOPERM this user has no permissions to access one of the keys used as arguments"), "", ""},
		{answer("WRONGTYPE Operation"), "lock", "WRONGTYPE"},
	} {
		got := append(examined(func(e *examination) {
			e.facts = []facts{{Node: "a", RTT: 306 * time.Millisecond}}
			e.held(&Report{Look: elector.Look{Status: elector.Status{Nodes: []elector.NodeStatus{{Node: "a", Err: &rediserr.NodeError{Node: "a", Err: c.err}}}}, CandidatesErr: c.err}})
		}), Finding{})[0]
		if got.Check != c.check || !strings.Contains(got.Found, c.says) || strings.Contains(got.Advice, "DEL") {
			t.Errorf("%v: %+v", c.err, got)
		}
	}
}

// Nodes that do not answer, and those that refuse what is written, count alike: the first line names
// them, and what their absence costs.
func TestNodesThatCannotBeUsed(t *testing.T) {
	down := func(name string, err error) facts {
		return facts{Node: name, Ping: &rediserr.NodeError{Node: name, Err: err}}
	}
	full := func(name string) facts {
		f := goodFacts(name)
		f.Refused = []string{"XADD: OOM command not allowed.", "SET: OOM command not allowed."}
		return f
	}
	up, quiet, n2 := goodFacts("n1"), goodFacts("n1"), down("n2", errors.New("dial tcp 127.0.0.1:7: connect: connection refused"))
	quiet.Refused = []string{"PUBLISH: no right"}
	hung, odd, wrong := down("n3", context.DeadlineExceeded), down("n3", errors.New("connection reset by peer")), down("n3", answer("WRONGPASS invalid username-password pair."))
	said := map[string]Finding{}
	for name, c := range map[string]struct {
		facts []facts
		level Level
	}{
		"one is off":           {[]facts{up, n2, up}, LevelWarn},
		"two are off":          {[]facts{up, n2, hung}, LevelFail},
		"password":             {[]facts{up, up, wrong}, LevelWarn},
		"one of five":          {[]facts{up, up, up, up, odd}, LevelWarn},
		"two are full":         {[]facts{full("n1"), up, full("n3")}, LevelFail},
		"one, and one is off":  {[]facts{full("n1"), up, odd}, LevelFail},
		"the only one is full": {[]facts{full("n1")}, LevelOK},
		"only messages":        {[]facts{quiet, quiet, quiet}, LevelOK},
	} {
		e := examining(c.facts...)
		e.together()
		if said[name] = find(e.findings, "majority"); said[name].Level != c.level {
			t.Errorf("%s: %+v", name, said[name])
		}
	}
	sentences(t, said)
}
