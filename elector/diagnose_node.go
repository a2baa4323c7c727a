package elector

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// node are the checks of one node.
func (d *diagnosis) node(f *quorum.Facts) {
	if f.Ping != nil {
		level := Warn // whether the others suffice is another finding
		if len(d.facts) == 1 {
			level = Fail
		}
		found, advice := strings.TrimPrefix(f.Ping.Error(), f.Node+": "), quorum.Advice(f.Ping)
		if advice != "" {
			found = words(f.Ping) // the advice gets a line of its own
		}
		d.add(f.Node, "reach", level, advice, "%s", found)
		return
	}
	d.reach(f)
	d.version(f)
	d.rights(f)
	d.messages(f)
	d.role(f)
	d.persistence(f)
	d.eviction(f)
	d.clock(f)
	if f.Cluster {
		d.add(f.Node, "slot", OK, "", "all keys are in hash slot %d, on %s", quorum.Slot(d.keys.Lock), or(f.Info["tcp_port"], "one master", "the master with port %s"))
	}
}

// words of an error, without the node's name that stands beside it, and without
// the advice for an election: most of what is refused here it does not need.
func words(err error) string {
	var node *quorum.NodeError
	if errors.As(err, &node) {
		err = node.Err
	}
	return err.Error()
}

func or(v, otherwise, format string) string {
	if v == "" {
		return otherwise
	}
	return fmt.Sprintf(format, v)
}

// reach compares the round trip with what a request, and what the loss of all connections,
// leaves time for.
func (d *diagnosis) reach(f *quorum.Facts) {
	const nearer = "use a longer lease, or a Redis nearby"
	limit := d.timing.MaxRoundTrip()
	switch end := d.timing.CallTimeout(); {
	case f.RTT >= end:
		d.add(f.Node, "reach", Fail, nearer, "a round trip takes %v: with a lease of %v no candidate can lead from %v on", short(f.RTT), d.lease, short(end))
	case f.RTT > limit:
		d.add(f.Node, "reach", Warn, nearer, "a round trip takes %v: with a lease of %v a term survives the loss of its connections up to %v",
			short(f.RTT), d.lease, short(limit))
	default:
		d.add(f.Node, "reach", OK, "", "a round trip takes %v; with a lease of %v it may take %v", short(f.RTT), d.lease, short(limit))
	}
}

const grant = "grant the rights that docs/redis.md lists"

func (d *diagnosis) rights(f *quorum.Facts) {
	switch {
	case f.LooksOnly:
		d.add(f.Node, "rights", Unknown, "for the rights of the candidates run it as their Redis user",
			"this Redis user may read elections, but cannot campaign")
	case f.EvalErr != nil:
		d.add(f.Node, "rights", Fail, remedy(words(f.EvalErr)), "scripts can't be run: %s", words(f.EvalErr))
	case len(f.Refused) > 0:
		level := Warn // these only report and speed up
		for _, r := range f.Refused {
			if cmd, _, _ := strings.Cut(r, ":"); cmd != "PUBLISH" && cmd != "PUBSUB" && cmd != "XADD" {
				level = Fail
			}
		}
		d.add(f.Node, "rights", level, remedy(f.Refused[0]), "refused: %s", strings.Join(f.Refused, "; "))
	default:
		d.add(f.Node, "rights", OK, "", "all commands of an election work")
	}
}

// remedy tells what helps against a refusal: not all of them are for want of a
// right.
func remedy(refusal string) string {
	switch {
	case strings.Contains(refusal, "READONLY"), strings.Contains(refusal, "MOVED "):
		return "see failover, below"
	case strings.Contains(refusal, "OOM "):
		return "give it more memory, or make room"
	case strings.Contains(refusal, "MISCONF"):
		return "fix its disk: it refuses writes because it cannot save"
	case strings.Contains(refusal, "LOADING"):
		return "wait: it is reading its data"
	default:
		return grant
	}
}

func (d *diagnosis) messages(f *quorum.Facts) {
	switch {
	case f.LooksOnly && quorum.Denied(f.HearErr):
		d.add(f.Node, "messages", Unknown, "", "this Redis user may not publish, or not subscribe")
	case f.HearErr != nil:
		d.add(f.Node, "messages", Warn, "grant +subscribe, +publish and the channels: until then followers wait for the lease's end",
			"no message is received on the channels: %s", words(f.HearErr))
	default:
		d.add(f.Node, "messages", OK, "", "a message arrives %v after it was sent", short(f.Heard))
	}
}

// role looks at replicas: what a failover does to the lock.
func (d *diagnosis) role(f *quorum.Facts) {
	replicas, _ := strconv.Atoi(f.Info["connected_slaves"])
	switch {
	case f.InfoErr != nil:
		d.add(f.Node, "failover", Unknown, "grant +info to see it", "%s", words(f.InfoErr))
	case f.Info["role"] == "slave", f.Info["role"] == "replica": // the latter is Dragonfly's word
		d.add(f.Node, "failover", Fail, "give the address of the master, or of the sentinels (redis+sentinel://)", "it is a replica, and takes no writes")
	case f.Info["cluster_enabled"] == "1" && !f.Cluster:
		d.add(f.Node, "failover", Fail, "write redis+cluster:// in the URL", "it is a node of a Redis Cluster")
	case f.Failing || f.Cluster:
		d.add(f.Node, "failover", OK, "", "%d replicas; a failover can lose the lock, so rely on the token", replicas)
	case replicas > 0 && len(d.facts) > 1:
		d.add(f.Node, "failover", Warn, "let nothing promote replicas of these nodes: a majority makes up for the one that fails",
			"%d replicas; a promoted one may not know the lock", replicas)
	case replicas > 0:
		d.add(f.Node, "failover", OK, "", "%d replicas; if one is promoted, the lock may be lost, so rely on the token", replicas)
	default:
		d.add(f.Node, "failover", OK, "", "a master without replicas")
	}
}

// persistence asks what is left after a restart.
func (d *diagnosis) persistence(f *quorum.Facts) {
	aof := f.Conf["appendonly"]
	if f.ConfErr != nil {
		aof = map[string]string{"1": "yes", "0": "no"}[f.Info["aof_enabled"]]
	}
	after := "after a restart it grants nothing for a lease"
	if len(d.facts) == 1 {
		after = "after a restart the lock and the last token are lost"
	}
	switch fsync := f.Conf["appendfsync"]; {
	case aof == "":
		d.add(f.Node, "persistence", Unknown, "grant +config|get or +info to see it", "the server does not reveal it")
	case aof == "no":
		d.add(f.Node, "persistence", Warn, "set appendonly yes, best with appendfsync always", "no append-only file: %s", after)
	case fsync == "":
		d.add(f.Node, "persistence", OK, "", "append-only file; how often it is synced is not known (+config|get)")
	case fsync == "always":
		d.add(f.Node, "persistence", OK, "", "append-only file, synced at every write")
	case fsync == "no":
		d.add(f.Node, "persistence", Warn, "set appendfsync always, or everysec", "the append-only file is never synced: a crash of the machine loses what it likes")
	default:
		d.add(f.Node, "persistence", OK, "", "append-only file, synced every second: a crash of the machine can lose the last one")
	}
}

// full is the share of the memory from which on it is nearly full.
const full = 0.9

func (d *diagnosis) eviction(f *quorum.Facts) {
	value := func(field string) string { // by INFO, or else by CONFIG
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
		d.add(f.Node, "eviction", Unknown, "grant +info or +config|get to see it", "the server does not reveal it")
	case limit == 0:
		d.add(f.Node, "eviction", OK, "", "no memory limit, so nothing is evicted")
	case policy != "noeviction":
		d.add(f.Node, "eviction", Fail, "set maxmemory-policy noeviction, or use a Redis that is no cache", "%s: Redis may throw the lock away when memory is short", policy)
	case used > full*limit:
		d.add(f.Node, "eviction", Warn, "give it more memory: a full Redis refuses renewals", "%.0f %% of the memory is used", 100*used/limit)
	default:
		d.add(f.Node, "eviction", OK, "", "noeviction, %.0f %% of the memory is used", 100*used/limit)
	}
}

// clock compares with this host's. Only tokens after a loss of data depend on it.
func (d *diagnosis) clock(f *quorum.Facts) {
	switch {
	case f.SkewErr != nil:
		d.add(f.Node, "clock", Unknown, "grant +time to see it", "%s", words(f.SkewErr))
	case f.Skew.Abs() > time.Second:
		d.add(f.Node, "clock", Warn, "run NTP here and there: after a loss of data tokens rely on the clocks", "it differs from this host's by %v", short(f.Skew))
	default:
		d.add(f.Node, "clock", OK, "", "it differs from this host's by %v", short(f.Skew))
	}
}
