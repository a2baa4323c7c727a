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
	"github.com/mandate-dev/mandate/elector/internal/registry"
)

// goodFacts are those of a node about which nothing is to be said.
func goodFacts(name string) registry.Facts {
	return registry.Facts{
		Node: name, RTT: time.Millisecond, Delivery: time.Millisecond,
		Info: map[string]string{
			"redis_version": "7.2.4", "run_id": "run-" + name, "role": "master", "connected_slaves": "0",
			"maxmemory": "0", "maxmemory_policy": "noeviction", "used_memory": "1000000", "aof_enabled": "1",
		},
		Conf: map[string]string{"appendonly": "yes", "appendfsync": "always"},
		View: registry.View{Node: name, Known: true, Fence: 1},
	}
}

func judge(facts ...registry.Facts) []Finding {
	e := newExamination(protocol.KeysOf("mandate", "e"), facts, len(facts)/2+1, nil)
	e.timing = lease.Timing{Lease: 10 * time.Second}.WithDefaults()
	e.nodes()
	return e.findings
}

// lockedOut is a node that is up, and lets nobody in.
func lockedOut() registry.Facts {
	return registry.Facts{Node: "x", Ping: &rediserr.NodeError{Node: "x", Err: errors.New("WRONGPASS invalid username-password pair")}}
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
	info := func(kv ...string) func(*registry.Facts) {
		return func(f *registry.Facts) {
			for i := 0; i < len(kv); i += 2 {
				f.Info[kv[i]] = kv[i+1]
			}
		}
	}
	noInfo := func(f *registry.Facts) { f.Info, f.InfoErr = nil, errors.New("NOPERM") }
	noConf := func(f *registry.Facts) { f.Conf, f.ConfErr = nil, errors.New("NOPERM") }
	for name, c := range map[string]struct {
		change func(*registry.Facts)
		check  string
		level  Level
		says   string
	}{
		"down":             {func(f *registry.Facts) { f.Ping = errors.New("refused") }, "reach", LevelFail, "refused"},
		"far":              {func(f *registry.Facts) { f.RTT = 501 * time.Millisecond }, "reach", LevelWarn, "up to 500ms"},
		"just near enough": {func(f *registry.Facts) { f.RTT = 500 * time.Millisecond }, "reach", LevelOK, "500ms"},
		"too far":          {func(f *registry.Facts) { f.RTT = 2 * time.Second }, "reach", LevelFail, "from 2s on"},
		"old":              {info("redis_version", "5.0.7"), "version", LevelWarn, "5.0.7"},
		"no version":       {noInfo, "version", LevelUnknown, "NOPERM"},
		"no scripts":       {func(f *registry.Facts) { f.EvalErr = errors.New("NOPERM") }, "rights", LevelFail, "NOPERM"},
		"no set":           {func(f *registry.Facts) { f.Refused = []string{"SET: no", "XADD: no"} }, "rights", LevelFail, "SET: no"},
		"no history":       {func(f *registry.Facts) { f.Refused = []string{"XADD: no"} }, "rights", LevelWarn, "XADD"},
		"slow":             {func(f *registry.Facts) { f.EvalErr = context.DeadlineExceeded }, "rights", LevelUnknown, "too slow"},
		"deaf":             {func(f *registry.Facts) { f.ReceiveErr = errors.New("NOPERM") }, "messages", LevelWarn, "NOPERM"},
		"replica":          {info("role", "slave"), "failover", LevelFail, "replica"},
		"cluster by redis": {info("cluster_enabled", "1"), "failover", LevelFail, "Cluster"},
		"failover unknown": {noInfo, "failover", LevelUnknown, "NOPERM"},
		"sentinel":         {func(f *registry.Facts) { f.ViaSentinel = true }, "failover", LevelOK, "token"},
		"no aof":           {func(f *registry.Facts) { f.Conf["appendonly"] = "no" }, "persistence", LevelWarn, "lost"},
		"no aof by info":   {func(f *registry.Facts) { noConf(f); f.Info["aof_enabled"] = "0" }, "persistence", LevelWarn, "lost"},
		"aof by info":      {noConf, "persistence", LevelOK, "not known"},
		"aof unknown":      {func(f *registry.Facts) { noConf(f); noInfo(f) }, "persistence", LevelUnknown, "not reveal"},
		"never synced":     {func(f *registry.Facts) { f.Conf["appendfsync"] = "no" }, "persistence", LevelWarn, "never"},
		"each second":      {func(f *registry.Facts) { f.Conf["appendfsync"] = "everysec" }, "persistence", LevelOK, "second"},
		"cache":            {info("maxmemory", "2000000", "maxmemory_policy", "volatile-lru"), "eviction", LevelFail, "throw"},
		"cache unlimited":  {info("maxmemory_policy", "allkeys-lru"), "eviction", LevelOK, "no memory limit"},
		"full":             {info("maxmemory", "1050000"), "eviction", LevelWarn, "95 %"},
		"eviction unknown": {noInfo, "eviction", LevelUnknown, "not reveal"},
		"clock":            {func(f *registry.Facts) { f.Skew = -3 * time.Second }, "clock", LevelWarn, "-3s"},
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
		facts []registry.Facts
		check string
		level Level
	}{
		"same server": {[]registry.Facts{goodFacts("a"), twin, goodFacts("c")}, "same-server", LevelFail},
	} {
		if got := find(judge(c.facts...), c.check); got.Level != c.level {
			t.Errorf("%s: %+v, want %s", name, got, c.level)
		}
	}
	if got := find(judge(lockedOut()), "reach"); got.Advice != "check user and password" || strings.Contains(got.Found, got.Advice) {
		t.Errorf("a wrong password: %+v", got)
	}
	for refusal, want := range map[string]string{
		"SET: READONLY You can't write": "promote it", "MOVED 1 a:1": "redis+cluster", "BUSY Redis is busy": "SCRIPT KILL", "ERR max number of clients reached": "maxclients", "SET: OOM command not allowed": "memory",
		"SET: MISCONF Redis is configured": "disk", "LOADING Redis is loading": "wait", "NOPERM this user": "rights",
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
