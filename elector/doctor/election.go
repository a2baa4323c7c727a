package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
	"github.com/mandate-dev/mandate/elector/internal/registry"
)

// held checks what the nodes hold for the named election.
func (e *examination) held(r *Report) {
	for i := range e.facts {
		e.lock(&e.facts[i])
	}
	if r.CandidatesErr == nil {
		e.sameHere(r.Candidates)
	}
}

// election checks what a report shows of the election.
func (e *examination) election(r *Report) {
	name := r.Status.Election
	if r.Status.Conflict != "" {
		e.add("", "locks", LevelFail, sameList, "%s", r.Status.Conflict)
	}
	lockKey, _, _ := strings.Cut(r.Status.Blocked, " holds ")
	for _, n := range r.Status.Nodes {
		e.vote(n, cmp.Or(lockKey, "the lock key"))
	}
	e.leader(name, r)
	e.pause(name, r.Status)
	e.candidates(r)
	if r.CandidatesErr == nil {
		e.refusals(r)
		e.drift(r.Candidates)
		e.ready(name, r.Candidates)
	}
	e.flapping(name, Unreported(r.Terms, r.Candidates, time.Now()), time.Now())
	e.unreadable(r.TermsErr)
}

// reachable reports nodes that could not be read, or that refuse writes.
func (e *examination) reachable(r *Report) {
	n, missing, cause := len(r.Status.Nodes), 0, ""
	refusing := slices.DeleteFunc(slices.Clone(r.Writes), func(f Finding) bool { return f.Level != LevelFail })
	for _, node := range r.Status.Nodes {
		if node.Reachable {
			continue
		}
		missing++
		refusing = slices.DeleteFunc(refusing, func(f Finding) bool { return f.Node == node.Node })
		cause = cmp.Or(cause, node.Node+": "+strings.TrimPrefix(node.Error, node.Node+": "))
	}
	out := missing + len(refusing)
	level, effect := LevelWarn, ""
	if 2*out >= n {
		level, effect = LevelFail, ": no other leader can be elected"
	}
	if r.StatusErr != nil {
		effect = ": the leader is unknown"
	}
	switch advice := e.command("doctor", r.Status.Election); {
	case n == 0 && r.StatusErr != nil:
		e.add("", "majority", LevelFail, advice, "the Redis nodes could not be read: %s", elector.Problem(r.StatusErr))
	case out == 0:
	case len(refusing) == 0:
		e.add("", "majority", level, advice, "%d of %d nodes can't be read (%s)%s", missing, n, cause, effect)
	default:
		e.add("", "majority", level, advice, "%d of %d nodes can't be written (%s: %s)%s", out, n, refusing[0].Node, refusing[0].Found, effect)
	}
}

// vote reports a node that can't vote.
func (e *examination) vote(n elector.NodeStatus, lockKey string) {
	if n.Abstains > 0 {
		e.add(n.Node, "vote", LevelWarn, "wait; if this happens again, find out why the node loses its data",
			"it is new, or lost its data: no vote for another %v", short(n.Abstains))
	}
	if n.Foreign != "" {
		end := "it has no end"
		if n.LeaseLeft > 0 {
			end = fmt.Sprintf("it lasts for another %v", short(n.LeaseLeft))
		}
		e.add(n.Node, "lock", LevelFail, "find out who wrote it; if nothing uses it: redis-cli DEL '"+lockKey+"'; or choose another prefix",
			"%s holds %s, which no candidate wrote: this node can't vote; %s", lockKey, n.Foreign, end)
	}
}

// lock checks what a node holds for the election.
func (e *examination) lock(f *registry.Facts) {
	if b, err := protocol.ParseLockValue(f.View.Holder); err == nil && b.Nodes != len(e.facts) {
		e.add(f.Node, "nodes", LevelFail, sameHere,
			"%s, which holds the lock, counts %d nodes, and %d are given here", b.Candidate, b.Nodes, len(e.facts))
	}
	if err := f.View.Err; f.Ping == nil && rediserr.Advice(err) != "" { // a key of another type, for example
		e.add(f.Node, "lock", LevelFail, "if nothing else uses it: redis-cli DEL that key; or choose another prefix", "%s", problemOf(err))
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

// leader reports whether the election has a leader, and if not, why.
func (e *examination) leader(name string, r *Report) {
	st := r.Status
	switch {
	case r.StatusErr != nil:
		e.add("", "leader", LevelUnknown, "", "no majority answered, so the leader is unknown")
	case r.Unresponsive:
		end := "its lease has just ended"
		if r.LeaseLeft > 0 {
			end = fmt.Sprintf("its lease ends in %v unless it renews", short(r.LeaseLeft))
		}
		e.add("", "leader", LevelWarn, "look for the process on its host; if it runs, its Redis user may lack the right to subscribe",
			"%s leads with token %d, and does not answer: it may hang or be dead; %s", st.Leader.Candidate, st.Leader.Token, end)
	case st.Leader != nil:
		e.add("", "leader", LevelOK, "", "%s leads with token %d", st.Leader.Candidate, st.Leader.Token)
	case st.Blocked != "":
		e.add("", "leader", LevelFail, "remove what the lock key holds: "+e.command("doctor", name), "no leader, and none can be elected: %s", st.Blocked)
	case !st.Traced() && len(r.Candidates) == 0: // candidates that have never led leave no trace on the nodes
		e.add("", "trace", LevelWarn, "check the name and the prefix; "+e.command("ls")+" lists all of them", "no trace of an election %q", name)
	case st.Paused:
		e.add("", "leader", LevelWarn, e.command("resume", name), "no leader: the election is paused (%s)", st.Pause)
	case r.CandidatesErr != nil:
		e.add("", "leader", LevelWarn, e.command("history", name), "no leader")
	case len(r.Candidates) == 0:
		e.add("", "leader", LevelWarn, "start one; "+e.command("history", name), "no leader, and no candidate answers: none is running, or they use other nodes or another prefix")
	case elsewhere(r) != nil:
		e.add("", "nodes", LevelFail, sameHere, "%s leads, but not by the nodes given here: it votes with %s", elsewhere(r).ID, namesOf(elsewhere(r).Nodes))
	default:
		e.add("", "leader", LevelWarn, "wait; "+e.command("history", name), "no leader: an election may be under way")
	}
}

// elsewhere returns a candidate that leads on another list of nodes than the one that was read, which may have more.
func elsewhere(r *Report) *elector.CandidateStatus {
	for i, c := range r.Candidates {
		other := len(c.Nodes) > 0 && len(c.Nodes) != len(r.Status.Nodes) || slices.ContainsFunc(c.Nodes, func(n elector.VotingNode) bool {
			return !slices.ContainsFunc(r.Status.Nodes, func(here elector.NodeStatus) bool { return here.Node == n.Name })
		})
		if c.Leads() && other {
			return &r.Candidates[i]
		}
	}
	return nil
}
