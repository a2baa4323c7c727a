package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/rediserr"
	"github.com/mandate-dev/mandate/elector/internal/registry"
)

// node checks one node.
func (e *examination) node(f *registry.Facts) {
	if f.Ping != nil {
		level := LevelWarn // another finding reports whether the other nodes suffice
		if len(e.facts) == 1 {
			level = LevelFail
		}
		found, advice := problemOf(f.Ping), e.cure(f)
		var node *rediserr.NodeError
		if advice == "" && errors.As(f.Ping, &node) { // otherwise the advice has its own line
			found = node.Problem()
		}
		if late(f.Ping) {
			found = fmt.Sprintf("no answer within %v", timeout)
		}
		e.add(f.Node, "reach", level, advice, "%s", strings.TrimRight(found, "."))
		return
	}
	e.reach(f)
	e.version(f)
	e.rights(f)
	e.messages(f)
	e.role(f)
	e.persistence(f)
	e.eviction(f)
	e.clock(f)
}

// reach compares the round trip with two limits: the time-out of a request, and the round trip with
// which a term still survives the loss of all connections.
func (e *examination) reach(f *registry.Facts) {
	const nearer = "use a longer lease, or a Redis nearby"
	limit := e.timing.MaxRoundTrip()
	switch end := e.timing.CallTimeout(); {
	case f.RTT >= end:
		e.add(f.Node, "reach", LevelFail, nearer, "a round trip takes %v: with a lease of %v no candidate can lead from %v on", short(f.RTT), e.timing.Lease, short(end))
	case f.RTT > limit:
		e.add(f.Node, "reach", LevelWarn, nearer, "a round trip takes %v: with a lease of %v a term survives the loss of its connections up to %v",
			short(f.RTT), e.timing.Lease, short(limit))
	default:
		e.add(f.Node, "reach", LevelOK, "", "a round trip takes %v; with a lease of %v it may take %v", short(f.RTT), e.timing.Lease, short(limit))
	}
}

func (e *examination) rights(f *registry.Facts) {
	switch {
	case f.LooksOnly:
		e.add(f.Node, "rights", LevelUnknown, "for the rights of the candidates run it as their Redis user",
			"this Redis user may read elections, but cannot campaign")
	case f.EvalErr != nil:
		e.add(f.Node, "rights", LevelFail, e.cure(f), "scripts can't be run: %s", problemOf(f.EvalErr))
	case len(f.Refused) > 0:
		level := LevelWarn
		for _, r := range f.Refused {
			if needed(r) {
				level = LevelFail
			}
		}
		e.add(f.Node, "rights", level, e.cure(f), "refused: %s", strings.Join(f.Refused, "; "))
	default:
		e.add(f.Node, "rights", LevelOK, "", "all commands of an election work")
	}
}

// needed reports whether an election needs a command that was refused. The others only report what
// happens, and speed up elections.
func needed(refused string) bool {
	cmd, _, _ := strings.Cut(refused, ":")
	return cmd != "PUBLISH" && cmd != "PUBSUB" && cmd != "XADD"
}

func (e *examination) messages(f *registry.Facts) {
	switch {
	case f.LooksOnly && rediserr.Denied(f.ReceiveErr):
		e.add(f.Node, "messages", LevelUnknown, "", "this Redis user may not publish, or not subscribe")
	case f.ReceiveErr != nil:
		e.add(f.Node, "messages", LevelWarn, "grant +subscribe, +publish and the channels: until then followers wait for the lease's end",
			"no message is received on the channels: %s", problemOf(f.ReceiveErr))
	default:
		e.add(f.Node, "messages", LevelOK, "", "a message arrives %v after it was sent", short(f.Delivery))
	}
}

// role checks replicas, and what a failover would do to the lock.
func (e *examination) role(f *registry.Facts) {
	replicas, _ := strconv.Atoi(f.Info["connected_slaves"])
	switch {
	case f.InfoErr != nil:
		e.add(f.Node, "failover", LevelUnknown, "grant +info to see it", "%s", problemOf(f.InfoErr))
	case f.Info["role"] == "slave", f.Info["role"] == "replica": // the latter is Dragonfly's word
		e.add(f.Node, "failover", LevelFail, "give the address of the master, or of the sentinels (redis+sentinel://)", "it is a replica, and takes no writes")
	case f.Info["cluster_enabled"] == "1" && !f.Cluster:
		e.add(f.Node, "failover", LevelFail, "write redis+cluster:// in the URL", "it is a node of a Redis Cluster")
	case f.ViaSentinel || f.Cluster:
		e.add(f.Node, "failover", LevelOK, "", "%d replicas; a failover can lose the lock, so rely on the token", replicas)
	case replicas > 0 && len(e.facts) > 1:
		e.add(f.Node, "failover", LevelWarn, "let nothing promote replicas of these nodes: a majority makes up for the one that fails",
			"%d replicas; a promoted one may not know the lock", replicas)
	case replicas > 0:
		e.add(f.Node, "failover", LevelOK, "", "%d replicas; if one is promoted, the lock may be lost, so rely on the token", replicas)
	default:
		e.add(f.Node, "failover", LevelOK, "", "a master without replicas")
	}
}

// persistence checks what a node keeps over a restart.
func (e *examination) persistence(f *registry.Facts) {
	aof := f.Conf["appendonly"]
	if f.ConfErr != nil {
		aof = map[string]string{"1": "yes", "0": "no"}[f.Info["aof_enabled"]]
	}
	after := "after a restart it grants nothing for a lease"
	if len(e.facts) == 1 {
		after = "after a restart the lock and the last token are lost"
	}
	switch fsync := f.Conf["appendfsync"]; {
	case aof == "":
		e.add(f.Node, "persistence", LevelUnknown, "grant +config|get or +info to see it", "the server does not reveal it")
	case aof == "no":
		e.add(f.Node, "persistence", LevelWarn, "set appendonly yes, best with appendfsync always", "no append-only file: %s", after)
	case fsync == "":
		e.add(f.Node, "persistence", LevelOK, "", "append-only file; how often it is synced is not known (+config|get)")
	case fsync == "always":
		e.add(f.Node, "persistence", LevelOK, "", "append-only file, synced at every write")
	case fsync == "no":
		e.add(f.Node, "persistence", LevelWarn, "set appendfsync always, or everysec", "the append-only file is never synced: a crash of the machine loses what it likes")
	default:
		e.add(f.Node, "persistence", LevelOK, "", "append-only file, synced every second: a crash of the machine can lose the last one")
	}
}

// full is the part of the memory limit above which the memory counts as nearly full.
const full = 0.9

func (e *examination) eviction(f *registry.Facts) {
	value := func(field string) string { // from INFO, or else from CONFIG
		if v := f.Info[strings.ReplaceAll(field, "-", "_")]; v != "" {
			return v
		}
		return f.Conf[field]
	}
	policy := value("maxmemory-policy")
	limit, err := strconv.ParseFloat(value("maxmemory"), 64)
	used, _ := strconv.ParseFloat(f.Info["used_memory"], 64)
	switch {
	case err != nil || policy == "":
		e.add(f.Node, "eviction", LevelUnknown, "grant +info or +config|get to see it", "the server does not reveal it")
	case limit == 0:
		e.add(f.Node, "eviction", LevelOK, "", "no memory limit, so nothing is evicted")
	case policy != "noeviction":
		e.add(f.Node, "eviction", LevelFail, "set maxmemory-policy noeviction, or use a Redis that is no cache", "%s: Redis may throw the lock away when memory is short", policy)
	case used > full*limit:
		e.add(f.Node, "eviction", LevelWarn, "give this Redis more memory: a full one refuses claims, so that no leader can be elected", "%.0f %% of the memory is used", 100*used/limit)
	default:
		e.add(f.Node, "eviction", LevelOK, "", "noeviction, %.0f %% of the memory is used", 100*used/limit)
	}
}

// clock compares the node's clock with this host's. Only tokens after a loss of data depend on it.
func (e *examination) clock(f *registry.Facts) {
	switch {
	case f.SkewErr != nil:
		e.add(f.Node, "clock", LevelUnknown, "grant +time to see it", "%s", problemOf(f.SkewErr))
	case f.Skew.Abs() > time.Second:
		e.add(f.Node, "clock", LevelWarn, "run NTP on this host and on that of "+f.Node+": after a loss of data tokens rely on the clocks", "its clock differs from this host's by %v", short(f.Skew))
	default:
		e.add(f.Node, "clock", LevelOK, "", "its clock differs from this host's by %v", short(f.Skew))
	}
}

// cure returns the advice for a node that does not answer, or refuses something; empty: there is none.
func (e *examination) cure(f *registry.Facts) string {
	switch {
	case f.Ping != nil:
		return cmp.Or(rediserr.Advice(f.Ping), unreachable(f.Node, f.Ping))
	case f.EvalErr != nil:
		return remedy(problemOf(f.EvalErr))
	case f.Grant != "":
		return "grant it: " + f.Grant
	case len(f.Refused) > 0:
		return remedy(f.Refused[0])
	default:
		return ""
	}
}
