package elector

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/lease"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// Level is how bad a Finding is.
type Level string

// The levels, from good to bad.
const (
	OK      Level = "ok"
	Unknown Level = "unknown" // it could not be looked at, often for want of a right
	Warn    Level = "warn"    // it works, with less than it could have
	Fail    Level = "fail"    // the election does not work, or is not safe
)

// rank orders the levels.
var rank = map[Level]int{OK: 0, Unknown: 1, Warn: 2, Fail: 3}

// Worse tells whether l is worse than another level.
func (l Level) Worse(than Level) bool { return rank[l] > rank[than] }

// Finding is the outcome of one check of Diagnose.
type Finding struct {
	Node   string `json:"node,omitempty"` // empty: about all of them
	Check  string `json:"check"`          // what was looked at, one word
	Level  Level  `json:"level"`
	Found  string `json:"found"`            // in words
	Advice string `json:"advice,omitempty"` // what to do
}

// inspectTimeout bounds what Diagnose asks of a node.
const inspectTimeout = 3 * time.Second

// Diagnose checks what an election needs of its Redis: that it answers, how
// fast, which rights it grants, what it keeps over a restart, whether it throws
// keys away, replicas, clocks, whether messages arrive. With an empty election
// it looks at the prefix alone. A lease of 0 means the one that the leader uses,
// or else the default.
//
// It asks each node for at most 3 s and then for 3 s more, or until ctx ends.
// Beside the election's keys it writes two of its own (prefix:{election}:check)
// and removes them. What Redis refuses to tell is Unknown, no failure. The error
// is for a bad name only. The candidates of a named election are asked which nodes
// they vote with, and who leads.
func (q *Quorum) Diagnose(ctx context.Context, prefix, election string, leaseTime time.Duration) ([]Finding, error) {
	named := election != ""
	election = cmp.Or(election, "doctor")
	el, err := q.Namespace(prefix).Election(election)
	if err != nil {
		return nil, err
	}
	keys := el.keys
	var roll rollCall
	var terms []TermRecord
	var unread error
	var called sync.WaitGroup
	if named {
		called.Go(func() { roll = callRoll(ctx, el) })
		called.Go(func() { terms, unread = recentTerms(ctx, el) })
	}
	facts := q.nodes.Inspect(ctx, keys, inspectTimeout)
	called.Wait()
	d := &diagnosis{keys: keys, facts: facts, majority: q.nodes.Majority()}
	d.lease = cmp.Or(leaseTime, leaseOf(facts), 10*time.Second)
	d.timing = Config{Lease: d.lease}.withDefaults().timing()
	for i := range facts {
		d.node(&facts[i])
	}
	d.all()
	if named {
		d.election(election)
		d.candidates(roll)
		d.overlaps(terms)
		d.unreadable(unread)
	}
	return d.findings, nil
}

// leaseOf is the lease that the holder of the lock uses; 0 when nobody holds it.
func leaseOf(facts []quorum.Facts) time.Duration {
	for _, f := range facts {
		if b, err := quorum.ParseBallot(f.View.Holder); err == nil {
			return b.Lease
		}
	}
	return 0
}

// diagnosis judges facts. It does no I/O.
type diagnosis struct {
	keys     quorum.Keys
	facts    []quorum.Facts
	majority int
	lease    time.Duration
	timing   lease.Timing
	findings []Finding
}

func (d *diagnosis) add(node, check string, level Level, advice, found string, args ...any) {
	d.findings = append(d.findings, Finding{Node: node, Check: check, Level: level, Found: fmt.Sprintf(found, args...), Advice: advice})
}

// all are the checks that compare the nodes.
func (d *diagnosis) all() {
	up, runs := 0, map[string]string{}
	var first, last *quorum.Facts
	for i := range d.facts {
		f := &d.facts[i]
		if f.Ping != nil {
			continue
		}
		up++
		if id := f.Info["run_id"]; id != "" && runs[id] != "" {
			d.add("", "same-server", Fail, "give every vote its own Redis: list another one",
				"%s and %s are one server", runs[id], f.Node)
		} else if id != "" {
			runs[id] = f.Node
		}
		if f.SkewErr == nil && (first == nil || f.Skew < first.Skew) {
			first = f
		}
		if f.SkewErr == nil && (last == nil || f.Skew > last.Skew) {
			last = f
		}
	}
	n := len(d.facts)
	switch {
	case up < d.majority:
		d.add("", "majority", Fail, d.back("bring Redis back")+"; until then no leader can be elected, and a leader loses its lease", "%d of %d nodes answer, %d are needed", up, n, d.majority)
	case up < n:
		d.add("", "majority", Warn, d.back("bring the other ones back")+" before another one fails", "%d of %d nodes answer, %d are needed", up, n, d.majority)
	case n == 1:
		d.add("", "majority", OK, "", "one node, and it answers; while it is down there is no leader")
	default:
		d.add("", "majority", OK, "", "all %d nodes answer; %d may fail", n, n-d.majority)
	}
	if n == 1 || up < 2 {
		return
	}
	switch {
	case len(runs) == up:
		d.add("", "same-server", OK, "", "the nodes are %d servers", up)
	case len(runs) == 0:
		d.add("", "same-server", Unknown, "", "the nodes do not reveal their run_id; the election itself detects a server that is listed twice")
	}
	if first != nil && last.Skew-first.Skew > time.Second {
		d.add("", "clocks", Warn, "run NTP on the nodes: a clock that is set frees locks early or late",
			"the clocks of %s and %s differ by %v", first.Node, last.Node, short(last.Skew-first.Skew))
	}
}

// back is how to get the nodes that don't answer: one that refuses us is up, and
// needs no restart.
func (d *diagnosis) back(down string) string {
	for _, f := range d.facts {
		if advice := quorum.Advice(f.Ping); advice != "" {
			return advice
		}
	}
	return down
}

// election looks at the one that was named.
func (d *diagnosis) election(name string) {
	views := make([]quorum.View, len(d.facts))
	trace := false
	for i, f := range d.facts {
		views[i] = f.View
		trace = trace || f.View.Known || f.View.Holder != "" || f.View.Foreign != ""
		if f.View.Err == nil && f.View.Newcomer > 0 {
			d.add(f.Node, "vote", Warn, "wait; if it comes back, find out why the node forgets",
				"it is new or lost its data: it does not vote for another %v", short(f.View.Newcomer))
		}
		if b, err := quorum.ParseBallot(f.View.Holder); err == nil && b.Nodes != len(d.facts) {
			d.add(f.Node, "nodes", Fail, "list the same nodes here and there",
				"%s, which holds the lock, counts %d nodes, and %d are given here", b.Candidate, b.Nodes, len(d.facts))
		} else if f.View.Foreign != "" {
			end := "it has no end"
			if f.View.Left > 0 {
				end = fmt.Sprintf("it lasts for another %v", short(f.View.Left))
			}
			d.add(f.Node, "lock", Fail, "find out who wrote it; if nothing uses it: redis-cli DEL '"+d.keys.Lock+"'; or choose another prefix",
				"%s holds %s, which no candidate wrote: this node can't vote; %s", d.keys.Lock, f.View.Foreign, end)
		}
		if err := f.View.Err; f.Ping == nil && quorum.Advice(err) != "" { // a key of another type, say
			d.add(f.Node, "lock", Fail, "if nothing else uses it: redis-cli DEL that key; or choose another prefix", "%s", words(err))
		}
	}
	d.holders()
	st, troubles := summarize(name, d.keys, views, d.majority)
	switch {
	case len(views)-len(troubles) < d.majority:
		d.add("", "leader", Unknown, "", "no majority answered, so the leader is unknown")
	case st.Leader != nil:
		d.add("", "leader", OK, "", "%s leads with token %d", st.Leader.Candidate, st.Leader.Token)
	case st.Blocked != "":
		d.add("", "leader", Fail, "remove what the lock key holds (lock, above)", "no leader, and none can be elected: %s", st.Blocked)
	case !trace:
		d.add("", "leader", Warn, "check the name and the prefix; mandate ls lists all of them", "no trace of an election %q", name)
	case st.Paused:
		d.add("", "leader", Warn, "mandate resume "+name, "no leader: the election is paused")
	default:
		d.add("", "leader", Warn, "list the candidates and why they do not lead: mandate candidates "+name+"; if there are none, start one", "no leader")
	}
}

func short(d time.Duration) time.Duration {
	if d.Abs() < 10*time.Millisecond {
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(time.Millisecond)
}
