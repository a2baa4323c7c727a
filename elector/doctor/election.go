package doctor

import (
	"fmt"
	"slices"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
	"github.com/mandate-dev/mandate/elector/internal/registry"
)

// election checks the named election.
func (e *examination) election(name string, seen outside) {
	for i := range e.facts {
		e.lock(&e.facts[i])
	}
	e.holders(seen.roll.all)
	e.leader(name, seen)
	e.pause(name, seen.status)
	e.older(name, seen.status)
	e.highest()
	e.candidates(seen.roll)
	if seen.roll.err == nil {
		e.refusals(seen.roll.all)
		e.drift(seen.roll.all)
		e.ready(name, seen.roll.all)
	}
	e.flapping(name, Unreported(seen.terms, seen.roll.all, time.Now()), time.Now())
	e.overlaps(seen.terms)
	e.unreadable(seen.termsErr)
}

// lock checks what a node holds for the election.
func (e *examination) lock(f *registry.Facts) {
	if f.View.Err == nil && f.View.Newcomer > 0 {
		e.add(f.Node, "vote", LevelWarn, "wait; if this happens again, find out why the node loses its data",
			"it is new, or lost its data: no vote for another %v", short(f.View.Newcomer))
	}
	if b, err := protocol.ParseLockValue(f.View.Holder); err == nil && b.Nodes != len(e.facts) {
		e.add(f.Node, "nodes", LevelFail, sameHere,
			"%s, which holds the lock, counts %d nodes, and %d are given here", b.Candidate, b.Nodes, len(e.facts))
	} else if f.View.Foreign != "" {
		end := "it has no end"
		if f.View.Left > 0 {
			end = fmt.Sprintf("it lasts for another %v", short(f.View.Left))
		}
		e.add(f.Node, "lock", LevelFail, "find out who wrote it; if nothing uses it: redis-cli DEL '"+e.keys.Lock+"'; or choose another prefix",
			"%s holds %s, which no candidate wrote: this node can't vote; %s", e.keys.Lock, f.View.Foreign, end)
	}
	if err := f.View.Err; f.Ping == nil && rediserr.Advice(err) != "" { // a key of another type, for example
		e.add(f.Node, "lock", LevelFail, "if nothing else uses it: redis-cli DEL that key; or choose another prefix", "%s", problemOf(err))
	}
}

// holders compares the lock values that the nodes hold.
func (e *examination) holders(roll []elector.CandidateStatus) {
	var values []string
	for _, f := range e.facts {
		values = append(values, f.View.Holder)
	}
	if found := protocol.Conflict(values); found != "" {
		e.add("", "locks", LevelFail, sameList, "%s", found)
	}
	known := protocol.IdentitiesOf(e.identities()).Known()
	for _, value := range values {
		if b, err := protocol.ParseLockValue(value); err == nil && b.Nodes == len(e.facts) && b.Identities.Differ(known, b.Nodes) {
			i := slices.IndexFunc(roll, func(c elector.CandidateStatus) bool { return c.Incarnation == b.Incarnation })
			if e.emptied() || i >= 0 && e.justEmptied(roll[i], b.Identities) { // the leader learns the new identity of a node at a renewal, and names it at the next one
				e.add("", "nodes", LevelUnknown, voteAgain, "whether %s, which holds a lock, votes with these nodes: one of them is new or lost its data", b.Candidate)
				return
			}
			e.add("", "nodes", LevelFail, sameHere, "%s, which holds a lock, votes with other nodes than those given here", b.Candidate)
			return
		}
	}
}

// pause reports a pause. It warns of one that only an operator can end, because such a pause is
// easily forgotten, and nobody notices it before the leader is gone.
func (e *examination) pause(name string, st elector.Status) {
	switch {
	case !st.Paused:
	case st.PauseLeft == 0:
		e.add("", "pause", LevelWarn, e.command("resume", name)+", or give it an end: "+e.command("pause", name, "--for", "1h"), "the election is paused without an end (%s)", st.Pause)
	default:
		e.add("", "pause", LevelOK, "", "the election is paused for another %v (%s)", short(st.PauseLeft), st.Pause)
	}
}

// older reports an operator's permission for a rollback. It is as easily forgotten as a pause, and
// stays in force until a version leads that is not the highest.
func (e *examination) older(name string, st elector.Status) {
	if st.AllowOlder == "" {
		return
	}
	from := ""
	if st.AllowOlder != elector.AnyVersion {
		from = " from " + st.AllowOlder + " on"
	}
	e.add("", "older", LevelWarn, "start the older version, or end it: "+e.command("refuse-older", name), "versions older than %s may lead again%s (%s)", st.Version, from, st.Allowed)
}

// highest reports a value in the version's key that neither a candidate nor an operator wrote.
func (e *examination) highest() {
	for _, f := range e.facts {
		if _, ok := protocol.ParseHighest(f.View.Version); f.View.Version != "" && !ok {
			e.add(f.Node, "version", LevelWarn, "find out what writes there; the next leader with NoDowngrade replaces it",
				"the highest version that has led is not known: its key holds %s", protocol.Quoted(f.View.Version))
		}
	}
}

// leader reports whether the election has a leader, and if not, why.
func (e *examination) leader(name string, seen outside) {
	st := seen.status
	// Candidates that have never been able to lead leave no trace on the nodes.
	trace := len(seen.roll.all) > 0 || slices.ContainsFunc(e.facts, func(f registry.Facts) bool {
		return f.View.Known || f.View.Holder != "" || f.View.Foreign != "" || f.View.Newcomer > 0
	})
	switch {
	case seen.statusErr != nil:
		e.add("", "leader", LevelUnknown, "", "no majority answered, so the leader is unknown")
	case seen.unresponsive:
		end := "its lease has just ended"
		if seen.leaseLeft > 0 {
			end = fmt.Sprintf("its lease ends in %v unless it renews", short(seen.leaseLeft))
		}
		e.add("", "leader", LevelWarn, "see who answers: "+e.command("candidates", name)+"; look for the process on its host; if it runs, its Redis user may lack the right to subscribe",
			"%s leads with token %d, and does not answer: it may hang or be dead; %s", st.Leader.Candidate, st.Leader.Token, end)
	case st.Leader != nil:
		e.add("", "leader", LevelOK, "", "%s leads with token %d", st.Leader.Candidate, st.Leader.Token)
	case st.Blocked != "":
		e.add("", "leader", LevelFail, "remove what the lock key holds (lock, above)", "no leader, and none can be elected: %s", st.Blocked)
	case !trace:
		e.add("", "trace", LevelWarn, "check the name and the prefix; "+e.command("ls")+" lists all of them", "no trace of an election %q", name)
	case len(seen.roll.all) > 0 && len(campaigning(seen.roll.all)) == 0 && !st.Paused:
		e.add("", "leader", LevelFail, "start a candidate that is no observer", "no leader: only observers are left")
	case st.Paused:
		e.add("", "leader", LevelWarn, e.command("resume", name), "no leader: the election is paused")
	default:
		e.add("", "leader", LevelWarn, "list the candidates and why they do not lead: "+e.command("candidates", name)+"; if there are none, start one", "no leader")
	}
}
