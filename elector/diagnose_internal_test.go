package elector

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// goodFacts are those of a node about which nothing is to be said.
func goodFacts(name string) quorum.Facts {
	return quorum.Facts{
		Node: name, RTT: time.Millisecond, Heard: time.Millisecond,
		Info: map[string]string{
			"redis_version": "7.2.4", "run_id": "run-" + name, "role": "master", "connected_slaves": "0",
			"maxmemory": "0", "maxmemory_policy": "noeviction", "used_memory": "1000000", "aof_enabled": "1",
		},
		Conf: map[string]string{"appendonly": "yes", "appendfsync": "always"},
		View: quorum.View{Node: name, Known: true, Fence: 1},
	}
}

func diagnose(facts ...quorum.Facts) []Finding {
	d := &diagnosis{keys: quorum.KeysOf("mandate", "e"), facts: facts, majority: len(facts)/2 + 1, lease: 10 * time.Second}
	d.timing = Config{Lease: d.lease}.withDefaults().timing()
	for i := range facts {
		d.node(&facts[i])
	}
	d.all()
	return d.findings
}

// lockedOut is a node that is up, and lets nobody in.
func lockedOut() quorum.Facts {
	return quorum.Facts{Node: "x", Ping: &quorum.NodeError{Node: "x", Err: errors.New("WRONGPASS invalid username-password pair")}}
}

func find(findings []Finding, check string) Finding {
	for _, f := range findings {
		if f.Check == check {
			return f
		}
	}
	return Finding{}
}

func TestDiagnoseFine(t *testing.T) {
	for _, f := range diagnose(goodFacts("a"), goodFacts("b"), goodFacts("c")) {
		if f.Level != OK || f.Found == "" || f.Advice != "" {
			t.Errorf("%+v", f)
		}
	}
}

func TestDiagnoseNode(t *testing.T) {
	info := func(kv ...string) func(*quorum.Facts) {
		return func(f *quorum.Facts) {
			for i := 0; i < len(kv); i += 2 {
				f.Info[kv[i]] = kv[i+1]
			}
		}
	}
	noInfo := func(f *quorum.Facts) { f.Info, f.InfoErr = nil, errors.New("NOPERM") }
	noConf := func(f *quorum.Facts) { f.Conf, f.ConfErr = nil, errors.New("NOPERM") }
	for name, c := range map[string]struct {
		change func(*quorum.Facts)
		check  string
		level  Level
		says   string
	}{
		"down":             {func(f *quorum.Facts) { f.Ping = errors.New("refused") }, "reach", Fail, "refused"},
		"far":              {func(f *quorum.Facts) { f.RTT = 501 * time.Millisecond }, "reach", Warn, "up to 500ms"},
		"just near enough": {func(f *quorum.Facts) { f.RTT = 500 * time.Millisecond }, "reach", OK, "500ms"},
		"too far":          {func(f *quorum.Facts) { f.RTT = 2 * time.Second }, "reach", Fail, "from 2s on"},
		"old":              {info("redis_version", "5.0.7"), "version", Warn, "5.0.7"},
		"no version":       {noInfo, "version", Unknown, "NOPERM"},
		"no scripts":       {func(f *quorum.Facts) { f.EvalErr = errors.New("NOPERM") }, "rights", Fail, "NOPERM"},
		"no set":           {func(f *quorum.Facts) { f.Refused = []string{"SET: no", "XADD: no"} }, "rights", Fail, "SET: no"},
		"no history":       {func(f *quorum.Facts) { f.Refused = []string{"XADD: no"} }, "rights", Warn, "XADD"},
		"deaf":             {func(f *quorum.Facts) { f.HearErr = errors.New("NOPERM") }, "messages", Warn, "NOPERM"},
		"replica":          {info("role", "slave"), "failover", Fail, "replica"},
		"cluster by redis": {info("cluster_enabled", "1"), "failover", Fail, "Cluster"},
		"failover unknown": {noInfo, "failover", Unknown, "NOPERM"},
		"sentinel":         {func(f *quorum.Facts) { f.Failing = true }, "failover", OK, "token"},
		"no aof":           {func(f *quorum.Facts) { f.Conf["appendonly"] = "no" }, "persistence", Warn, "lost"},
		"no aof by info":   {func(f *quorum.Facts) { noConf(f); f.Info["aof_enabled"] = "0" }, "persistence", Warn, "lost"},
		"aof by info":      {noConf, "persistence", OK, "not known"},
		"aof unknown":      {func(f *quorum.Facts) { noConf(f); noInfo(f) }, "persistence", Unknown, "not reveal"},
		"never synced":     {func(f *quorum.Facts) { f.Conf["appendfsync"] = "no" }, "persistence", Warn, "never"},
		"each second":      {func(f *quorum.Facts) { f.Conf["appendfsync"] = "everysec" }, "persistence", OK, "second"},
		"cache":            {info("maxmemory", "2000000", "maxmemory_policy", "volatile-lru"), "eviction", Fail, "throw"},
		"cache unlimited":  {info("maxmemory_policy", "allkeys-lru"), "eviction", OK, "no memory limit"},
		"full":             {info("maxmemory", "1050000"), "eviction", Warn, "95 %"},
		"eviction unknown": {noInfo, "eviction", Unknown, "not reveal"},
		"clock":            {func(f *quorum.Facts) { f.Skew = -3 * time.Second }, "clock", Warn, "-3s"},
		"slot":             {func(f *quorum.Facts) { f.Cluster = true }, "slot", OK, "15363"},
	} {
		f := goodFacts("a")
		f.Info, f.Conf = maps.Clone(f.Info), maps.Clone(f.Conf)
		c.change(&f)
		got := find(diagnose(f), c.check)
		if got.Level != c.level || !strings.Contains(got.Found, c.says) {
			t.Errorf("%s: %+v, want %s with %q", name, got, c.level, c.says)
		}
		if (got.Level == Warn || got.Level == Fail) && got.Advice == "" && name != "down" {
			t.Errorf("%s: it does not say what to do: %+v", name, got)
		}
	}
}

func TestDiagnoseTogether(t *testing.T) {
	away := quorum.Facts{Node: "x", Ping: errors.New("refused")}
	twin := goodFacts("b")
	twin.Info = map[string]string{"run_id": "run-a"}
	ahead := goodFacts("b")
	ahead.Skew = 2 * time.Second
	for name, c := range map[string]struct {
		facts []quorum.Facts
		check string
		level Level
	}{
		"one down":    {[]quorum.Facts{goodFacts("a"), goodFacts("b"), away}, "majority", Warn},
		"two down":    {[]quorum.Facts{goodFacts("a"), away, away}, "majority", Fail},
		"same server": {[]quorum.Facts{goodFacts("a"), twin, goodFacts("c")}, "same-server", Fail},
		"clocks":      {[]quorum.Facts{goodFacts("a"), ahead, goodFacts("c")}, "clocks", Warn},
	} {
		if got := find(diagnose(c.facts...), c.check); got.Level != c.level {
			t.Errorf("%s: %+v, want %s", name, got, c.level)
		}
	}
	if got := find(diagnose(lockedOut()), "reach"); got.Advice != "check user and password" || strings.Contains(got.Found, got.Advice) {
		t.Errorf("a wrong password: %+v", got)
	}
	for refusal, want := range map[string]string{
		"SET: READONLY You can't write": "failover", "MOVED 1 a:1": "failover", "SET: OOM command not allowed": "memory",
		"SET: MISCONF Redis is configured": "disk", "LOADING Redis is loading": "wait", "NOPERM this user": "rights",
	} {
		f := goodFacts("a")
		f.Refused = []string{refusal}
		if got := find(diagnose(f), "rights"); !strings.Contains(got.Advice, want) {
			t.Errorf("%s: %+v", refusal, got)
		}
	}
	for _, facts := range [][]quorum.Facts{{lockedOut()}, {goodFacts("a"), goodFacts("b"), lockedOut()}} {
		majority := find(diagnose(facts...), "majority")
		if !strings.HasPrefix(majority.Advice, "check user and password") || strings.Contains(majority.Advice, "back") {
			t.Errorf("a wrong password: %+v", majority)
		}
	}
	if !Fail.Worse(Warn) || !Warn.Worse(Unknown) || !Unknown.Worse(OK) || OK.Worse(OK) {
		t.Error("the levels are out of order")
	}
}
