package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

func (e *examination) nodes() {
	for i := range e.facts {
		e.node(&e.facts[i])
	}
	e.together()
}

func (e *examination) node(f *facts) {
	if f.Ping != nil { // see together
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

const nearer = "see what keeps it busy (redis-cli SLOWLOG GET, redis-cli --latency); if it is far away: a longer lease, or a Redis nearby"

// reach compares the round trip with two limits: the time-out of a request, and the round trip with
// which a term still survives the loss of all connections.
func (e *examination) reach(f *facts) {
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

func (e *examination) rights(f *facts) {
	switch {
	case f.LooksOnly && len(f.Refused) == 0:
		e.unseen(f.Node, "rights", "for the rights of the candidates run it as their Redis user", f.EvalErr, "this Redis user may read elections, but cannot campaign")
	case f.holdsBack():
		e.add(f.Node, "rights", LevelFail, unpause,
			"PING is answered in %v, and no script within %v", short(f.RTT), timeout)
	case rediserr.TimedOut(f.EvalErr):
		e.add(f.Node, "rights", LevelUnknown, "", "it could not be found out within %v", timeout)
	case f.EvalErr != nil && !f.LooksOnly:
		e.add(f.Node, "rights", LevelFail, e.cure(f), "scripts can't be run: %s", problemOf(f.EvalErr))
	case len(f.Refused) > 0:
		level := LevelWarn
		if slices.ContainsFunc(f.Refused, needed) {
			level = LevelFail
		}
		e.add(f.Node, "rights", level, e.cure(f), "refused: %s", strings.Join(f.Refused, "; "))
	default:
		e.add(f.Node, "rights", LevelOK, "", "all commands of an election work")
	}
}

// near is the longest round trip with which inspect has the time for all that it asks, some thirty round trips.
const near = timeout / 30

// holdsBack reports whether a node answers PING, and no script: its writes are paused, or a proxy or the network holds
// them back.
func (f *facts) holdsBack() bool {
	return f.Ping == nil && f.RTT <= near && rediserr.TimedOut(f.EvalErr)
}

// needed reports whether an election needs a command that was refused. The others only report what
// happens, speed up elections, or are for groups of shards.
func needed(refused string) bool {
	cmd, _, _ := strings.Cut(refused, ":")
	return slices.Contains([]string{"SET", "GET", "PEXPIRE", "PTTL", "TIME", "DEL"}, cmd)
}

func (e *examination) messages(f *facts) {
	switch {
	case f.LooksOnly && rediserr.Denied(f.ReceiveErr):
		e.unseen(f.Node, "messages", "", f.ReceiveErr, "this Redis user may not publish, or not subscribe")
	case rediserr.TimedOut(f.ReceiveErr) && (f.RTT > near || f.holdsBack()):
		e.add(f.Node, "messages", LevelUnknown, "", "it could not be found out within %v", timeout)
	case f.ReceiveErr != nil:
		e.add(f.Node, "messages", LevelWarn, e.advice(f, f.ReceiveErr),
			"no message is received on the channels, so followers wait for the lease's end: %s", problemOf(f.ReceiveErr))
	default:
		e.add(f.Node, "messages", LevelOK, "", "a message arrives %v after it was sent", short(f.Delivery))
	}
}

// role checks replicas, and what a failover would do to the lock.
func (e *examination) role(f *facts) {
	replicas, _ := strconv.Atoi(f.Info["connected_slaves"])
	switch {
	case f.InfoErr != nil:
		e.unseen(f.Node, "failover", granting("+info to see it", f.InfoErr), f.InfoErr, "%s", problemOf(f.InfoErr))
	case f.masterOf() != "":
		e.add(f.Node, "failover", LevelFail, e.cure(f), "it is a replica of %s, and takes no writes", f.masterOf())
	case f.Info["cluster_enabled"] == "1" && !f.Cluster:
		e.add(f.Node, "failover", LevelFail, "write redis+cluster:// in the URL", "it is a node of a Redis Cluster")
	case (f.ViaSentinel || f.Cluster) && f.Info["min_slaves_good_slaves"] == "": // which is shown only if it is set
		e.add(f.Node, "failover", LevelWarn, "with two replicas or more, set min-replicas-to-write 1 on all of them and on the master",
			"%d replicas, and min-replicas-to-write is 0: when the master is cut off, a leader on its side continues beside the next one until that ends", replicas)
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

// masterOf returns the address of a replica's master; empty: it is no replica, or does not say so.
func (f *facts) masterOf() string {
	if role := f.Info["role"]; role != "slave" && role != "replica" { // the latter is Dragonfly's word
		return ""
	}
	return net.JoinHostPort(f.Info["master_host"], f.Info["master_port"])
}

// persistence checks what a node keeps over a restart.
func (e *examination) persistence(f *facts) {
	aof := f.Conf["appendonly"]
	if f.ConfErr != nil {
		aof = map[string]string{"1": "yes", "0": "no"}[f.Info["aof_enabled"]]
	}
	after := "after a restart it grants nothing for a lease"
	if len(e.facts) == 1 {
		after = "a crash brings back an old lock and token, and a candidate that just starts may then lead beside the leader for a quarter of a lease"
	}
	fsync := f.Conf["appendfsync"]
	switch {
	case aof == "":
		e.unseen(f.Node, "persistence", granting("+config|get or +info to see it", f.InfoErr, f.ConfErr), cmp.Or(f.InfoErr, f.ConfErr), "the server does not reveal it")
	case aof == "no":
		e.add(f.Node, "persistence", LevelWarn, "set appendonly yes, best with appendfsync always", "no append-only file: %s", after)
	case fsync == "no":
		e.add(f.Node, "persistence", LevelWarn, "set appendfsync always, or everysec", "the append-only file is never synced: a crash of the machine loses what it likes")
	default:
		e.add(f.Node, "persistence", LevelOK, "", "append-only file%s", syncs[fsync])
	}
}

// syncs are how often an append-only file is synced, and what a crash of the machine can lose therefore.
var syncs = map[string]string{
	"always": ", synced at every write", "everysec": ", synced every second, so a crash of the machine can lose the last one", "": "; how often it is synced is not known (+config|get)",
}

// full is the part of the memory limit above which the memory counts as nearly full.
const full = 0.9

func (e *examination) eviction(f *facts) {
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
		e.unseen(f.Node, "eviction", granting("+info or +config|get to see it", f.InfoErr, f.ConfErr), cmp.Or(f.InfoErr, f.ConfErr), "the server does not reveal it")
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
func (e *examination) clock(f *facts) {
	switch {
	case f.SkewErr != nil:
		e.unseen(f.Node, "clock", granting("+time to see it", f.SkewErr), f.SkewErr, "%s", problemOf(f.SkewErr))
	case f.Skew.Abs() > time.Second:
		e.add(f.Node, "clock", LevelWarn, "run NTP on this host and on "+f.Node+": a clock that is set forward there frees the lock at once", "its clock differs from this host's by %v", short(f.Skew))
	default:
		e.add(f.Node, "clock", LevelOK, "", "its clock differs from this host's by %v", short(f.Skew))
	}
}

// minVersions are the servers that the tests run on (make servers), each with the first major
// version that can be expected to behave like the tested ones.
var minVersions = map[string]int{"Redis": 7, "Valkey": 7}

func (e *examination) version(f *facts) {
	name, version := serverOf(f.Info)
	text := strings.TrimSpace(name + " " + version)
	major, err := strconv.Atoi(strings.SplitN(version, ".", 2)[0])
	least, tested := minVersions[name]
	switch {
	case f.InfoErr != nil:
		e.unseen(f.Node, "version", granting("+info to see it", f.InfoErr), f.InfoErr, "%s", problemOf(f.InfoErr))
	case !tested:
		e.add(f.Node, "version", LevelWarn, "try it before you rely on it: docs/servers.md lists what is known of each server", "%s: mandate is not tested with it", text)
	case err != nil:
		e.add(f.Node, "version", LevelUnknown, "", "the server does not report its version")
	case major < least:
		e.add(f.Node, "version", LevelWarn, fmt.Sprintf("use %s %d or later", name, least), "%s: mandate is not tested with it", text)
	default:
		e.add(f.Node, "version", LevelOK, "", "%s", text)
	}
}

// serverOf finds out from its INFO which program a node runs, and its version. Most programs with the
// protocol of Redis also report a redis_version: that which they imitate for clients, and not their own.
func serverOf(info map[string]string) (name, version string) {
	for _, known := range []string{"Valkey", "Dragonfly", "Garnet", "Kvrocks", "Upstash"} {
		if v := info[strings.ToLower(known)+"_version"]; v != "" {
			return known, strings.TrimPrefix(strings.TrimPrefix(v, "df-"), "v")
		}
	}
	if name := info["server_name"]; name != "" && name != "redis" { // the name that it gives itself is better than a wrong one
		return name, info[name+"_version"]
	}
	return "Redis", info["redis_version"]
}

func (e *examination) together() {
	var unfit []Finding
	runs := map[string]string{}
	for i := range e.facts {
		f := &e.facts[i]
		if why := unfitBecause(f); why != "" && (f.Ping != nil || len(e.facts) > 1) { // for a single node, its own finding is enough
			unfit = append(unfit, Finding{Node: f.Node, Found: why, Advice: e.cure(f)})
		}
		if len(f.Servers) > 1 {
			e.add("", "servers", LevelFail, "give the address of one",
				"%s leads to several servers (identities %s): no lock can hold there", f.Node, strings.Join(f.Servers, ", "))
		}
		id := f.Info["run_id"]
		switch {
		case id == "":
		case runs[id] != "":
			e.add("", "same-server", LevelFail, "give every vote its own Redis: list another one", "%s and %s are one server", runs[id], f.Node)
		default:
			runs[id] = f.Node
		}
	}
	n, up := len(e.facts), len(e.facts)-len(unfit)
	why, advice := causes(unfit)
	why = fmt.Sprintf("%d of %d nodes can't be used (%s)", len(unfit), n, why)
	switch {
	case up < e.majority:
		e.add("", "majority", LevelFail, advice, "%s: no candidate that sees the same can be elected", why) // others may have another login
	case up < n && up == e.majority:
		e.add("", "majority", LevelWarn, advice, "%s: when another one fails, no leader can be elected", why)
	case up < n:
		e.add("", "majority", LevelWarn, advice, "%s; %d more may fail", why, up-e.majority)
	case n == 1:
		e.add("", "majority", LevelOK, "", "one node, and it answers; while it is down there is no leader")
	default:
		e.add("", "majority", LevelOK, "", "all %d nodes answer; %d may fail", n, n-e.majority)
	}
}

// causes returns why nodes can't be used, and what to do about it, each once.
func causes(unfit []Finding) (why, advice string) {
	var whys, cures []string
	for _, f := range Merge(unfit) {
		whys = append(whys, f.Node+": "+f.Found)
		if f.Advice != "" && !slices.Contains(cures, f.Advice) {
			cures = append(cures, f.Advice)
		}
	}
	return strings.Join(whys, "; "), strings.Join(cures, "; ")
}

// unfitBecause returns why a node can't vote; empty: it can.
func unfitBecause(f *facts) string {
	refused := slices.IndexFunc(f.Refused, needed)
	switch {
	case f.Ping != nil:
		return strings.TrimRight(f.nodeError(f.Ping).Answer(), ".")
	case f.holdsBack():
		return "no script is answered in time"
	case f.LooksOnly && refused < 0 || rediserr.TimedOut(f.EvalErr):
		return ""
	case f.EvalErr != nil && !f.LooksOnly:
		return problemOf(f.EvalErr)
	case refused >= 0:
		_, answer, _ := strings.Cut(f.Refused[refused], ": ")
		return strings.TrimRight(answer, ".")
	default:
		return ""
	}
}

// cure returns the advice for a node that does not answer, or refuses something; empty: there is none.
func (e *examination) cure(f *facts) string {
	id := f.Info["master_replid"]
	switch {
	case f.Ping != nil:
		return e.advice(f, f.Ping)
	case id != "" && f.Info["role"] != "master" &&
		slices.ContainsFunc(e.facts, func(o facts) bool { return o.Node != f.Node && o.Info["master_replid"] == id }):
		return "list independent servers, or only the master of these replicas"
	case f.masterOf() != "":
		return "give the address of its master, " + f.masterOf() + ", or those of the sentinels; promote it (REPLICAOF NO ONE) only if nothing else manages it"
	case f.EvalErr != nil && !f.LooksOnly:
		return e.advice(f, f.EvalErr)
	case len(f.Refused) > 0:
		command, answer, _ := strings.Cut(f.Refused[0], ": ")
		return e.advice(f, errors.New(cmp.Or(answer, command)))
	default:
		return ""
	}
}

// advice returns what to do about an error of a node; empty: nothing is known. Who lacks a right of a candidate is told
// all of them.
func (e *examination) advice(f *facts, err error) string {
	of := *f.nodeError(err)
	of.Err = rediserr.CandidateNeeds(of.Err, e.keys.Prefix())
	return of.Advice()
}

// nodeError returns an error of the node as one with its name.
func (f *facts) nodeError(err error) *rediserr.NodeError {
	if node, ok := errors.AsType[*rediserr.NodeError](err); ok {
		return node
	}
	return &rediserr.NodeError{Node: f.Node, User: f.User, Err: err}
}

// remedy returns the advice for a node's refusal, of which only the text is left; empty: there is none.
func remedy(node, refusal string) string {
	return (&rediserr.NodeError{Node: node, Err: errors.New(refusal)}).Advice()
}

// granting returns the advice to grant a right, if one of the errors is that it lacks.
func granting(right string, errs ...error) string {
	if slices.ContainsFunc(errs, rediserr.Denied) {
		return "grant " + right
	}
	return ""
}

// problemOf returns the text of an error. It leaves out the node's name, which is printed beside it,
// and the advice for an election, which does not need most of the commands that are tried here.
func problemOf(err error) string {
	if node, ok := errors.AsType[*rediserr.NodeError](err); ok {
		err = node.Err
	}
	return strings.TrimRight(err.Error(), ".")
}

func short(d time.Duration) time.Duration {
	if d.Abs() < 10*time.Millisecond {
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(time.Millisecond)
}

// list joins the first few names.
func list(names []string) string {
	const shown = 5
	if len(names) > shown {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
	}
	return strings.Join(names, ", ")
}
