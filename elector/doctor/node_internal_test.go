package doctor

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/lease"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
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

func judge(facts ...facts) []Finding {
	e := newExamination(protocol.KeysOf("mandate", "e"), len(facts)/2+1, nil)
	e.facts = facts
	e.timing = lease.Timing{Lease: 10 * time.Second}.WithDefaults()
	e.nodes()
	return e.findings
}

// lockedOut is a node that is up, and lets nobody in.
func lockedOut() facts {
	return facts{Node: "x", Ping: &rediserr.NodeError{Node: "x", Err: errors.New("WRONGPASS invalid username-password pair")}}
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

func TestFindingsOfANode(t *testing.T) {
	info := func(kv ...string) func(*facts) {
		return func(f *facts) {
			for i := 0; i < len(kv); i += 2 {
				f.Info[kv[i]] = kv[i+1]
			}
		}
	}
	noInfo := func(f *facts) { f.Info, f.InfoErr = nil, errors.New("NOPERM") }
	noConf := func(f *facts) { f.Conf, f.ConfErr = nil, errors.New("NOPERM") }
	for name, c := range map[string]struct {
		change func(*facts)
		check  string
		level  Level
		says   string
	}{
		"down":             {func(f *facts) { f.Ping = errors.New("refused") }, "reach", LevelFail, "refused"},
		"far":              {func(f *facts) { f.RTT = 501 * time.Millisecond }, "reach", LevelWarn, "up to 500ms"},
		"just near enough": {func(f *facts) { f.RTT = 500 * time.Millisecond }, "reach", LevelOK, "500ms"},
		"too far":          {func(f *facts) { f.RTT = 2 * time.Second }, "reach", LevelFail, "from 2s on"},
		"old":              {info("redis_version", "5.0.7"), "version", LevelWarn, "5.0.7"},
		"no version":       {noInfo, "version", LevelUnknown, "NOPERM"},
		"no scripts":       {func(f *facts) { f.EvalErr = errors.New("NOPERM") }, "rights", LevelFail, "NOPERM"},
		"no set":           {func(f *facts) { f.Refused = []string{"SET: NOPERM no", "XADD: no"} }, "rights", LevelFail, "SET: NOPERM"},
		"no history":       {func(f *facts) { f.Refused = []string{"XADD: NOPERM no"} }, "rights", LevelWarn, "XADD"},
		"no group rights":  {func(f *facts) { f.Refused = []string{"HSET: NOPERM no"} }, "rights", LevelWarn, "HSET"},
		"full for lookers": {func(f *facts) {
			f.LooksOnly, f.EvalErr, f.Refused = true, errors.New("NOPERM"), []string{"SET: OOM command"}
		}, "rights", LevelFail, "OOM"},
		"slow":             {func(f *facts) { f.EvalErr = context.DeadlineExceeded }, "rights", LevelUnknown, "too slow"},
		"deaf":             {func(f *facts) { f.ReceiveErr = errors.New("NOPERM") }, "messages", LevelWarn, "NOPERM"},
		"replica":          {info("role", "slave"), "failover", LevelFail, "replica"},
		"cluster by redis": {info("cluster_enabled", "1"), "failover", LevelFail, "Cluster"},
		"failover unknown": {noInfo, "failover", LevelUnknown, "NOPERM"},
		"sentinel":         {func(f *facts) { f.ViaSentinel = true }, "failover", LevelWarn, "min-replicas-to-write is 0"},
		"cluster":          {func(f *facts) { f.Cluster = true }, "failover", LevelWarn, "min-replicas-to-write is 0"},
		"writes need one": {func(f *facts) {
			f.ViaSentinel, f.Info["min_slaves_good_slaves"] = true, "0"
		}, "failover", LevelOK, "token"},
		"no aof":           {func(f *facts) { f.Conf["appendonly"] = "no" }, "persistence", LevelWarn, "lost"},
		"no aof by info":   {func(f *facts) { noConf(f); f.Info["aof_enabled"] = "0" }, "persistence", LevelWarn, "lost"},
		"aof by info":      {noConf, "persistence", LevelOK, "not known"},
		"aof unknown":      {func(f *facts) { noConf(f); noInfo(f) }, "persistence", LevelUnknown, "not reveal"},
		"never synced":     {func(f *facts) { f.Conf["appendfsync"] = "no" }, "persistence", LevelWarn, "never"},
		"each second":      {func(f *facts) { f.Conf["appendfsync"] = "everysec" }, "persistence", LevelOK, "second"},
		"cache":            {info("maxmemory", "2000000", "maxmemory_policy", "volatile-lru"), "eviction", LevelFail, "throw"},
		"cache unlimited":  {info("maxmemory_policy", "allkeys-lru"), "eviction", LevelOK, "no memory limit"},
		"full":             {info("maxmemory", "1050000"), "eviction", LevelWarn, "95 %"},
		"eviction unknown": {noInfo, "eviction", LevelUnknown, "not reveal"},
		"clock":            {func(f *facts) { f.Skew = -3 * time.Second }, "clock", LevelWarn, "-3s"},
	} {
		f := goodFacts("a")
		f.Info, f.Conf = maps.Clone(f.Info), maps.Clone(f.Conf)
		c.change(&f)
		got := find(judge(f), c.check)
		if got.Level != c.level || !strings.Contains(got.Found, c.says) {
			t.Errorf("%s: %+v, want %s with %q", name, got, c.level, c.says)
		}
		if (got.Level == LevelWarn || got.Level == LevelFail) && got.Advice == "" && name != "down" {
			t.Errorf("%s: it does not say what to do: %+v", name, got)
		}
	}
}

func TestFindingsOfAllTogether(t *testing.T) {
	twin := goodFacts("b")
	twin.Info = map[string]string{"run_id": "run-a"}
	for name, c := range map[string]struct {
		facts []facts
		check string
		level Level
	}{
		"same server": {[]facts{goodFacts("a"), twin, goodFacts("c")}, "same-server", LevelFail},
	} {
		if got := find(judge(c.facts...), c.check); got.Level != c.level {
			t.Errorf("%s: %+v, want %s", name, got, c.level)
		}
	}
	if got := find(judge(lockedOut()), "reach"); got.Advice != "check user and password" || strings.Contains(got.Found, got.Advice) {
		t.Errorf("a wrong password: %+v", got)
	}
	pingOnly := facts{Node: "x", EvalErr: &rediserr.NodeError{Node: "x", User: "op", Err: errors.New("NOPERM this user has no permissions to run the 'get' command")}}
	if got := find(judge(pingOnly), "rights"); !strings.Contains(got.Advice, "ACL SETUSER op +get") {
		t.Errorf("a user that may do nothing: %+v", got)
	}
	for refusal, want := range map[string]string{
		"SET: READONLY You can't write": "promote it", "MOVED 1 a:1": "redis+cluster", "BUSY Redis is busy": "SCRIPT KILL", "ERR max number of clients reached": "maxclients", "SET: OOM command not allowed": "memory",
		"SET: MISCONF Redis is configured": "disk", "LOADING Redis is loading": "wait", "NOPERM this user": "lists what each user needs",
	} {
		f := goodFacts("a")
		f.Refused = []string{refusal}
		if got := find(judge(f), "rights"); !strings.Contains(got.Advice, want) {
			t.Errorf("%s: %+v", refusal, got)
		}
	}
	if !LevelFail.Worse(LevelWarn) || !LevelWarn.Worse(LevelUnknown) || !LevelUnknown.Worse(LevelOK) || LevelOK.Worse(LevelOK) {
		t.Error("the levels are out of order")
	}
}

// Leadership that is lost again and again is reported, planned ends are not.
func TestFlapping(t *testing.T) {
	now := time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC)
	term := func(reason elector.Reason, ago time.Duration) elector.TermRecord {
		return elector.TermRecord{Reason: reason, Until: now.Add(-ago)}
	}
	old := flapsIn + time.Second
	for want, terms := range map[string][]elector.TermRecord{
		"": {
			term(elector.ReasonLost, 0), term(elector.ReasonLost, flapsIn), term(elector.ReasonLost, old), term(elector.ReasonShutdown, 0),
			term(elector.ReasonResigned, 0), {Current: true, Reason: elector.ReasonLost},
		},
		"3 terms of the last 10 min ended unwanted: 2 expired, 1 vanished": {
			term(elector.ReasonExpired, 0), term(elector.ReasonExpired, flapsIn), {Reason: elector.ReasonVanished, From: now},
		},
	} {
		if got := find(examined(func(e *examination) { e.flapping("e", terms, now) }), "flapping"); got.Found != want {
			t.Errorf("%+v, want %q", got, want)
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
		"NOREPLICAS Not enough good replicas to write":                 "start its replicas",
		"CLUSTERDOWN The cluster is down":                              "CLUSTER INFO",
		"ERR max number of clients reached":                            "raise maxclients",
		"something that nobody knows":                                  "",
		"WRONGPASS invalid username-password pair or user is disabled": "password",
	} {
		f := facts{Node: "x", Ping: &rediserr.NodeError{Node: "x", Err: answer(msg)}}
		if got := find(judge(f), "reach"); got.Level != LevelFail || !strings.Contains(got.Advice, want) || (want == "") != (got.Advice == "") {
			t.Errorf("%s: %+v", msg, got)
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
			e.held(&Report{Status: elector.Status{Nodes: []elector.NodeStatus{{Node: "a", Err: &rediserr.NodeError{Node: "a", Err: c.err}}}}, CandidatesErr: c.err})
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
	const start, room = "start Redis at n2, or correct host and port", "give this Redis more memory, or make room"
	for name, c := range map[string]struct {
		facts        []facts
		level        Level
		want, advice string
	}{
		"one is off":           {[]facts{up, n2, up}, LevelWarn, "1 of 3 nodes can't be used (n2: connect: connection refused): when another one fails, no leader can be elected", start},
		"two are off":          {[]facts{up, n2, hung}, LevelFail, "2 of 3 nodes can't be used (n2: connect: connection refused; n3: no answer in time): no candidate that sees the same can be elected", start},
		"password":             {[]facts{up, up, wrong}, LevelWarn, "1 of 3 nodes can't be used (n3: WRONGPASS invalid username-password pair): when another one fails, no leader can be elected", "check user and password"},
		"one of five":          {[]facts{up, up, up, up, odd}, LevelWarn, "1 of 5 nodes can't be used (n3: connection reset by peer); 1 more may fail", ""},
		"two are full":         {[]facts{full("n1"), up, full("n3")}, LevelFail, "2 of 3 nodes can't be used (n1, n3: OOM command not allowed): no candidate that sees the same can be elected", room},
		"one, and one is off":  {[]facts{full("n1"), up, odd}, LevelFail, "2 of 3 nodes can't be used (n1: OOM command not allowed; n3: connection reset by peer): no candidate that sees the same can be elected", room},
		"the only one is full": {[]facts{full("n1")}, LevelOK, "one node, and it answers; while it is down there is no leader", ""},
		"only messages":        {[]facts{quiet, quiet, quiet}, LevelOK, "all 3 nodes answer; 1 may fail", ""},
	} {
		e := newExamination(protocol.KeysOf("mandate", "e"), len(c.facts)/2+1, nil)
		e.facts = c.facts
		e.together()
		if got := find(e.findings, "majority"); got.Level != c.level || got.Found != c.want || got.Advice != c.advice {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// The relevant lines of INFO: recorded from Debian's Redis and Valkey, and for
// the others written as their sources print them (docs/servers.md).
var infoTexts = map[string]string{
	"redis 7.0":     "# Server\r\nredis_version:7.0.15\r\nredis_git_sha1:00000000\r\nredis_mode:standalone\r\nos:Linux 6.1 x86_64\r\n",
	"redis 6":       "# Server\r\nredis_version:6.2.14\r\nredis_mode:standalone\r\n",
	"valkey 8.0":    "# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1\r\nserver_mode:standalone\r\nos:Linux 6.1 x86_64\r\n",
	"dragonfly":     "# Server\r\nredis_version:7.4.0\r\ndragonfly_version:df-v1.40.1\r\nredis_mode:standalone\r\narch_bits:64\r\n",
	"garnet":        "# Server\r\ngarnet_version:1.0.84\r\nserver_name:garnet\r\nos:Unix 6.1\r\nrun_id:abc\r\nredis_version:7.4.3\r\nredis_mode:standalone\r\n",
	"another fork":  "# Server\r\nredis_version:7.2.4\r\nserver_name:redthing\r\nredthing_version:1.2\r\n",
	"nameless fork": "# Server\r\nredis_version:7.2.4\r\nserver_name:redthing\r\n",
	"nothing told":  "# Server\r\nredis_mode:standalone\r\n",
}

func TestServerIsNamedTruly(t *testing.T) {
	for name, want := range map[string]struct {
		level  Level
		found  string
		advice string
	}{
		"redis 7.0":     {LevelOK, "Redis 7.0.15", ""},
		"redis 6":       {LevelWarn, "Redis 6.2.14: mandate is not tested with it", "use Redis 7 or later"},
		"valkey 8.0":    {LevelOK, "Valkey 8.0.1", ""},
		"dragonfly":     {LevelWarn, "Dragonfly 1.40.1: mandate is not tested with it", "docs/servers.md"},
		"garnet":        {LevelWarn, "Garnet 1.0.84: mandate is not tested with it", "docs/servers.md"},
		"another fork":  {LevelWarn, "redthing 1.2: mandate is not tested with it", "docs/servers.md"},
		"nameless fork": {LevelWarn, "redthing: mandate is not tested with it", "docs/servers.md"},
		"nothing told":  {LevelUnknown, "the server does not report its version", ""},
	} {
		f := goodFacts("a")
		f.Info = infoFields(infoTexts[name])
		got := find(judge(f), "version")
		if got.Level != want.level || got.Found != want.found || !strings.Contains(got.Advice, want.advice) || (want.advice == "") != (got.Advice == "") {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

// Dragonfly calls its role "replica", and its policy "eviction" when it is a cache.
func TestTermsOfOtherServers(t *testing.T) {
	f := goodFacts("a")
	f.Info["role"], f.Info["maxmemory"], f.Info["maxmemory_policy"] = "replica", "2000000", "eviction"
	findings := judge(f)
	for _, check := range []string{"failover", "eviction"} {
		if got := find(findings, check); got.Level != LevelFail {
			t.Errorf("%s: %+v", check, got)
		}
	}
}
