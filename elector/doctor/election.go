package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
)

// held checks what the nodes hold for the named election, and whether they are those of its candidates.
func (e *examination) held(r *Report) {
	e.sameServer(r)
	for i, n := range r.Nodes {
		if b, err := protocol.ParseLockValue(n.Lock); err == nil && b.Nodes != len(r.Nodes) {
			e.add(n.Node, "nodes", LevelFail, sameHere, "%s, which holds the lock, counts %d nodes, and %d are given here", b.Candidate, b.Nodes, len(r.Nodes))
		}
		switch err := n.Err; {
		case err == nil || e.facts[i].Ping != nil:
		case rediserr.TimedOut(err) && e.facts[i].RTT <= near: // see reachable
		case rediserr.TimedOut(err):
			e.add(n.Node, "reach", LevelWarn, nearer, "a round trip takes %v: what it holds for the election could not be read in time", short(e.facts[i].RTT))
		case rediserr.Advice(err) != "" && (e.facts[i].LooksOnly || !rediserr.Denied(err)): // a key of another type; a candidate's rights are checked already
			e.add(n.Node, "lock", LevelFail, rediserr.Advice(err), "%s", problemOf(err))
		}
	}
	if r.CandidatesErr == nil {
		e.sameHere(r.Nodes, r.Candidates)
	}
}

// election checks what a report shows of the election.
func (e *examination) election(r *Report) {
	if r.Conflict != "" {
		e.add("", "locks", LevelFail, sameList, "%s", r.Conflict)
	}
	level, voteless := LevelWarn, 0
	for _, n := range r.Nodes {
		if n.Abstains > 0 || n.Foreign != "" {
			voteless++
		}
	}
	if len(r.Nodes)-voteless < protocol.Majority(len(r.Nodes)) {
		level = LevelFail
	}
	for _, n := range r.Nodes {
		e.vote(n, level)
	}
	e.leader(r)
	if r.Paused {
		e.pause(r)
	}
	if r.CandidatesErr != nil {
		e.unseen("", "candidates", "", r.CandidatesErr, "the roll could not be called: %s", strings.TrimRight(r.CandidatesErr.Error(), "."))
	} else {
		if len(r.Others) > 0 && !slices.ContainsFunc(r.Nodes, func(n elector.NodeStatus) bool { return n.Protocol == r.Others[0] }) { // see vote
			e.add("", "protocol", LevelWarn, otherVersion, "candidates of another version: %d, with %v", len(r.Others), protocol.OtherVersion(r.Others[0]))
		}
		e.candidates(r)
		e.refusals(r)
		e.drift(r.Candidates)
		e.ready(r)
	}
	e.ticks(r)
	e.dataLoss(r, time.Now())
	e.flapping(r, time.Now())
	if r.StatusErr == nil && r.TermsErr != nil { // a right is missing, or the key is another program's
		e.unseen("", "history", "", r.TermsErr, "it can't be read: %s", strings.TrimRight(r.TermsErr.Error(), "."))
	}
}

// reachable reports nodes that could not be read, or that refuse writes.
func (e *examination) reachable(r *Report) {
	n, unread := len(r.Nodes), []Finding(nil)
	refusing := slices.DeleteFunc(slices.Clone(r.Writes), func(f Finding) bool { return f.Level != LevelFail })
	for i, node := range r.Nodes {
		if r.holdsBack(node) {
			refusing = append(refusing, Finding{Node: node.Node, Found: "it answers reads, and holds writes back", Advice: unpause})
		}
		if node.Reachable {
			continue
		}
		f := Finding{Node: node.Node, Found: strings.TrimPrefix(node.Error, node.Node+": ")}
		if i < len(e.facts) && e.facts[i].Ping == nil && e.facts[i].RTT <= near && rediserr.TimedOut(node.Err) {
			f.Found, f.Advice = "it answers PING, and nothing else in time", unpause
		}
		unread = append(unread, f)
		refusing = slices.DeleteFunc(refusing, func(f Finding) bool { return f.Node == node.Node })
	}
	out := len(unread) + len(refusing)
	level, effect := LevelWarn, ""
	if n-out < protocol.Majority(n) {
		level, effect = LevelFail, ": no other leader can be elected"
	}
	if r.StatusErr != nil || r.MayLead != nil {
		effect = ": the leader is unknown"
	}
	why, advice := causes(append(refusing, unread...))
	if e.facts == nil {
		advice = cmp.Or(advice, e.command("doctor", r.Election))
	}
	switch {
	case n == 0 && r.StatusErr != nil:
		e.add("", "majority", LevelFail, advice, "the Redis nodes could not be read: %v", r.StatusErr)
	case out == 0:
	case len(refusing) == 0:
		e.add("", "majority", level, advice, "%d of %d nodes can't be read (%s)%s", out, n, why, effect)
	default:
		e.add("", "majority", level, advice, "%d of %d nodes can't be written (%s)%s", out, n, why, effect)
	}
	if out > 0 {
		e.since(silentSince(r, unread))
	}
	for _, f := range r.Writes {
		if f.denied {
			e.findings = append(e.findings, f)
		}
	}
}

// unpause is the advice for a node that answers some requests at once, and others not at all.
const unpause = "end the pause: redis-cli CLIENT UNPAUSE; or look for what drops large packets, or holds writes back, on the way"

// holdsBack reports whether a node has answered the reads at once, and the trial write not at all.
func (r *Report) holdsBack(n elector.NodeStatus) bool {
	return n.Reachable && n.RTT <= near && slices.ContainsFunc(r.Writes, func(f Finding) bool { return f.Node == n.Node && f.late })
}

// silentSince returns since when candidates have had no answer of one of these nodes; zero: they had, or none says so.
func silentSince(r *Report, nodes []Finding) (since time.Time) {
	longest := time.Duration(0)
	for _, c := range r.Candidates {
		for _, n := range c.Nodes {
			if slices.ContainsFunc(nodes, func(f Finding) bool { return f.Node == n.Name }) {
				longest = max(longest, n.SilentFor)
			}
		}
	}
	if longest > 0 {
		since = time.Now().Add(-longest)
	}
	return since
}

// sameServer reports nodes that keep one identity. What the servers report of themselves tells whether they are one.
func (e *examination) sameServer(r *Report) {
	level := LevelFail
	if r.Leader != nil { // of one server no candidate accepts two votes
		level = LevelWarn
	}
	for i, n := range r.Nodes {
		first := slices.IndexFunc(r.Nodes, func(other elector.NodeStatus) bool { return other.Identity == n.Identity })
		switch {
		case n.Identity == "" || first == i:
		case e.facts == nil:
			e.add(n.Node, "same-server", level, e.command("doctor", r.Election)+" shows which", "the server of %s, or a copy of its data", r.Nodes[first].Node)
		case e.facts[i].Info["run_id"] == "" || e.facts[first].Info["run_id"] == "":
			e.add(n.Node, "same-server", level, "grant +info, or run this as an administrator, to see which", "the server of %s, or a copy of its data", r.Nodes[first].Node)
		case e.facts[i].Info["run_id"] != e.facts[first].Info["run_id"] && e.facts[i].Info["role"] == "master" && e.facts[first].Info["role"] == "master":
			e.add(n.Node, "copies", LevelWarn, "redis-cli DEL '"+e.keys.ID+"' there: a running term suffers no harm",
				"its data are a copy of those of %s: lists of nodes that differ are noticed less reliably", r.Nodes[first].Node)
		}
	}
}

// vote reports a node that can't vote.
func (e *examination) vote(n elector.NodeStatus, level Level) {
	if n.Abstains > 0 {
		e.add(n.Node, "vote", level, "wait; if this happens again, find out why the node loses its data",
			"it is new, or lost its data: no vote for another %v", n.Abstains.Truncate(time.Second)+time.Second)
	}
	switch {
	case n.Protocol != 0:
		e.add(n.Node, "protocol", LevelWarn, otherVersion, "%s holds the lock with %v", n.Holder, protocol.OtherVersion(n.Protocol))
	case n.Foreign != "":
		key, _, _ := strings.Cut(n.Foreign, " holds ")
		end := "it has no end"
		if n.LeaseLeft > 0 {
			end = fmt.Sprintf("it lasts for another %v", n.LeaseLeft.Truncate(time.Second)+time.Second)
		}
		e.add(n.Node, "lock", level, "find out who wrote it, and have that use another prefix; only if nothing uses it: redis-cli DEL '"+key+"'",
			"%s: this node can't vote; %s", n.Foreign, end)
	}
}

// otherVersion is the advice about candidates with another protocol: what they wrote is in use.
const otherVersion = "use the command of that version, and delete nothing; a handover between the two costs up to a lease"

// pause reports a pause. It warns of one that only an operator can end, because such a pause is
// easily forgotten, and nobody notices it before the leader is gone; and of any that keeps the election without a leader.
// The pause may protect the work of whoever asked for it.
func (e *examination) pause(r *Report) {
	advice := "ask " + cmp.Or(r.PauseBy, "who paused it") + " whether it is over, then: " + e.command("resume", r.Election, "--force")
	switch {
	case r.StatusErr == nil && r.Leader == nil && r.MayLead == nil:
		e.add("", "pause", LevelWarn, advice, "no leader: the election is paused (%s)", r.Pause)
	case r.PauseLeft > 0:
		e.add("", "pause", LevelOK, "", "the election is paused for another %v (%s)", short(r.PauseLeft), r.Pause)
	default:
		e.add("", "pause", LevelWarn, advice, "the election is paused without an end (%s)", r.Pause)
	}
	e.since(r.PauseSince)
}

// leader reports whether the election has a leader, and if not, why.
func (e *examination) leader(r *Report) {
	name, l, other := r.Election, r.Leader, elsewhere(r)
	none := func(check string, level Level, advice, found string) {
		e.add("", check, level, advice, "%s", found)
		e.since(r.Vacant())
	}
	switch {
	case r.StatusErr != nil:
		e.add("", "leader", LevelUnknown, "", "no majority of the nodes shows it, so the leader is unknown")
	case r.Unresponsive:
		e.unresponsive(r)
	case l != nil:
		unprobed := map[bool]string{true: ", without a probe: nobody would notice work that hangs"}[r.Unprobed()]
		e.add("", "leader", LevelOK, "", "%s leads with token %d%s", l.Candidate, l.Token, unprobed)
		e.since(l.Since)
	case r.MayLead != nil && r.MayLead.Protocol != 0, len(r.Candidates) == 0 && len(r.Others) > 0: // see protocol
	case r.MayLead != nil:
		e.add("", "leader", LevelUnknown, "", "%s may lead, which depends on nodes that can't be read", r.MayLead.Candidate)
	case r.Blocked != "": // see lock
	case !r.Traced() && len(r.Candidates) == 0: // candidates that have never led leave no trace on the nodes
		e.add("", "trace", LevelWarn, "check the name, the prefix and the nodes; "+e.command("ls")+" lists all of them", "no trace of an election %q on these nodes", name)
	case r.Paused: // see pause
	case r.Finished():
		none("gone", LevelNote, "if it is not a run --once between two runs, start a candidate", "no leader, and no candidate: the last work ended without an error")
	case r.CandidatesErr != nil:
		none("leader", LevelFail, e.command("history", name), "no leader")
	case r.Abandoned():
		none("gone", LevelNote, "start a candidate; or remove its keys, see docs/redis.md", "no leader, and no candidate: it seems to be no longer used")
	case len(r.Candidates) == 0:
		none("gone", LevelFail, "start one, or look into the log of one that runs: it names what Redis refuses",
			"no leader, and no candidate answers: none is running, Redis refuses them, or they use other nodes or another prefix")
	case other != nil:
		e.forgotten(r, other)
	case !slices.ContainsFunc(r.Candidates, elector.CandidateStatus.Able): // ready reports why
	default:
		none("leader", LevelFail, "wait; if it stays, see why the last terms ended: "+e.command("history", name)+"; none is recorded where Redis evicts keys (maxmemory-policy)",
			"no leader: an election may be under way")
	}
}

// forgotten reports a leader with another list of nodes. If a candidate waits with the list given here, it was forgotten.
func (e *examination) forgotten(r *Report, other *elector.CandidateStatus) {
	advice := sameHere
	for _, c := range r.Candidates {
		if namesIn(c.Nodes) == namesIn(asListed(r.Nodes)) {
			advice = fmt.Sprintf("stop %s (%s): %s waits with the nodes given here", other.ID, placeOf(*other), c.ID)
		}
	}
	e.add("", "nodes", LevelFail, advice, "%s leads, but not by the nodes given here: it votes with %s", other.ID, namesOf(other.Nodes))
}

// unresponsive reports a leader that does not answer. While it renews on time, it neither hangs nor is dead.
func (e *examination) unresponsive(r *Report) {
	l, left, end := r.Leader, r.LeaseLeft(), "its lease has just ended"
	if lease := leaseOf(r.Nodes); lease-left < lease*5/16 {
		e.add("", "leader", LevelWarn, fmt.Sprintf("repeat this in %v: if it has not renewed by then, look for the process on its host; if it has, grant its Redis user +subscribe, and the channels (&PREFIX:*), see docs/redis.md", short(lease*5/16)),
			"%s leads with token %d, renewed its lease %v ago, and does not answer: it has just died, or does not receive requests", l.Candidate, l.Token, short(lease-left))
		return
	}
	if left > 0 {
		end = fmt.Sprintf("its lease ends in %v unless it renews", short(left))
	}
	e.add("", "leader", LevelWarn, "look for the process on its host; if it runs, its Redis user may lack +subscribe, or the channels (&PREFIX:*)",
		"%s leads with token %d, and does not answer: it may hang or be dead; %s", l.Candidate, l.Token, end)
}

// elsewhere returns a candidate that leads on another list of nodes than the one that was read, which may have more.
func elsewhere(r *Report) *elector.CandidateStatus {
	for i, c := range r.Candidates {
		other := len(c.Nodes) > 0 && len(c.Nodes) != len(r.Nodes) || slices.ContainsFunc(c.Nodes, func(n elector.VotingNode) bool {
			return !slices.ContainsFunc(r.Nodes, func(here elector.NodeStatus) bool { return here.Node == n.Name })
		})
		if c.Leads() && other {
			return &r.Candidates[i]
		}
	}
	return nil
}

// placeOf says where a candidate runs.
func placeOf(c elector.CandidateStatus) string {
	where := "host " + cmp.Or(c.Host, "unknown")
	if c.PID != 0 {
		where = fmt.Sprintf("process %d on %s", c.PID, where)
	}
	return where
}

// asListed returns nodes as a candidate with that list would report them. A node that answers and has no identity,
// because no candidate has ever claimed there, is a difference, too.
func asListed(nodes []elector.NodeStatus) []elector.VotingNode {
	listed := make([]elector.VotingNode, len(nodes))
	for i, n := range nodes {
		if listed[i] = (elector.VotingNode{Name: n.Node, Identity: n.Identity}); n.Identity == "" && n.Reachable {
			listed[i].Identity = fmt.Sprintf("none%d", i)
		}
	}
	return listed
}

const sameList = "give all candidates the same list of nodes, in any order (docs/deploying.md: change the nodes or the lease)"

// sameHere is the advice when the nodes given here are not those of the candidates.
const sameHere = "give this command the same list of nodes as the candidates"

// candidates compares the candidates' answers with each other.
func (e *examination) candidates(r *Report) {
	var leaders []string
	places := map[string][]string{} // the processes of each id
	for _, c := range r.Candidates {
		if c.Leads() {
			leaders = append(leaders, fmt.Sprintf("%s (token %d) on %s", c.ID, c.Token, namesOf(c.Nodes)))
		}
		places[c.ID] = append(places[c.ID], placeOf(c))
	}
	if len(leaders) > 1 {
		e.add("", "leaders", LevelFail, "if they still do: stop all but one of them now; then "+sameList,
			"%d candidates lead at the same time, or the leader has just changed: %s", len(leaders), strings.Join(leaders, "; "))
	}
	for _, id := range slices.Sorted(maps.Keys(places)) {
		if n := len(places[id]); n > 1 {
			e.add("", "ids", LevelWarn, "give each its own id: events, status and history cannot distinguish them",
				"%d candidates have the id %s: %s", n, id, list(places[id]))
		}
	}
	lists := byList(r.Candidates)
	switch a, b := unlike(r.Candidates); {
	case len(lists) == 0:
	case len(lists) == 1 && a != nil:
		e.unlike(r, a, b)
	case len(lists) == 1:
		e.add("", "candidates", LevelOK, "", "%d answer, and vote with the same nodes", len(r.Candidates))
	case slices.ContainsFunc(r.Nodes, func(n elector.NodeStatus) bool { return n.Abstains > 0 }),
		!slices.ContainsFunc(r.Candidates, func(c elector.CandidateStatus) bool { return namesIn(c.Nodes) != namesIn(r.Candidates[0].Nodes) }):
		e.add("", "candidates", LevelUnknown, "repeat this in four leases; if it stays, have each address lead to the same server everywhere",
			"whether they vote with the same nodes: not all have met the data that are there now")
	default:
		var who []string
		for _, same := range lists {
			who = append(who, fmt.Sprintf("%s with %s", strings.Join(idsOf(same), ", "), namesOf(same[0].Nodes)))
		}
		e.add("", "candidates", LevelFail, sameList+": two that can't meet may both lead", "they vote with different nodes: %s", strings.Join(who, "; "))
	}
}

// unlike reports two candidates whose lists differ in nodes of which some have not answered, so that none shows whether they
// are one server. Who has a node that is not given here, where the other one's is, has the old list.
func (e *examination) unlike(r *Report, a, b *elector.CandidateStatus) {
	ofA, ofB := without(a.Nodes, b.Nodes), without(b.Nodes, a.Nodes)
	given := func(nodes []elector.VotingNode) bool { return len(without(nodes, asListed(r.Nodes))) == 0 }
	answers := func(n elector.VotingNode) bool { return !unidentified(n) }
	switch {
	case !slices.ContainsFunc(append(ofA, ofB...), answers):
		e.add("", "candidates", LevelUnknown, "repeat this when it answers", "whether %s, which %s has, and %s, which %s has, are one server", namesOf(ofA), a.ID, namesOf(ofB), b.ID)
	case !given(ofA) && given(ofB):
		e.add("", "candidates", LevelWarn, fmt.Sprintf("unless these are one server: restart %s with the list of %s", a.ID, b.ID),
			"%s still has %s in its list, and %s has %s in its place", a.ID, namesOf(ofA), b.ID, namesOf(ofB))
	default:
		e.add("", "candidates", LevelWarn, "unless these are one server: "+sameList, "%s has %s in its list, and %s has %s in its place", a.ID, namesOf(ofA), b.ID, namesOf(ofB))
	}
}

// sameHere compares the candidates' nodes with those given here.
func (e *examination) sameHere(nodes []elector.NodeStatus, all []elector.CandidateStatus) {
	here := elector.CandidateStatus{Nodes: asListed(nodes)}
	listed := func(c elector.CandidateStatus) bool { return namesIn(c.Nodes) == namesIn(here.Nodes) }
	switch old, _ := unlike(all); {
	case len(byList(all)) != 1 || all[0].SameNodes(here):
	case old != nil && slices.ContainsFunc(all, listed): // see candidates
	case emptied(nodes, all[0]):
		e.add("", "nodes", LevelUnknown, "repeat this when the node votes again", "whether the candidates vote with the nodes given here: one of these is new or lost its data")
	default:
		e.add("", "nodes", LevelFail, sameHere, "the candidates vote with other nodes than those given here: with %s", namesOf(all[0].Nodes))
	}
}

// emptied reports whether a node of a candidate has a new identity, or lost it a moment ago: it gets
// another one with the next renewal. The candidate may still know the former one, and so seem to vote
// with another node.
func emptied(nodes []elector.NodeStatus, c elector.CandidateStatus) bool {
	return slices.ContainsFunc(nodes, func(n elector.NodeStatus) bool {
		named := slices.ContainsFunc(c.Nodes, func(other elector.VotingNode) bool { return other.Name == n.Node })
		return n.Abstains > 0 || n.Identity == "" && named
	})
}

// refusals reports which nodes answer requests of the candidates with an error, the nodes in the order
// of the roll, whose leader comes first. The node may accept the same requests from another Redis user,
// or refuse renewals only: the checks of the nodes, which are made as this command's user, can't see it.
func (e *examination) refusals(r *Report) {
	who := map[string][]string{} // the ids of the candidates that a node refuses
	var nodes []elector.VotingNode
	for _, c := range r.Candidates {
		for _, n := range c.Nodes {
			if n.Refusal == "" {
				continue
			}
			if who[n.Name] == nil {
				nodes = append(nodes, n)
			}
			who[n.Name] = append(who[n.Name], c.ID)
		}
	}
	e.unreached(r)
	level := LevelWarn
	if 2*(len(r.Nodes)-len(nodes)) <= len(r.Nodes) {
		level = LevelFail
	}
	for _, n := range nodes {
		e.add(n.Name, "refuses", level, cmp.Or(n.Remedy, remedy(n.Name, n.Refusal)), "refuses %s: %s", list(who[n.Name]), strings.TrimRight(n.Refusal, "."))
	}
}

// unreached reports nodes that have not answered candidates for a lease or more, and answer here, or are known
// here under another name: only these candidates know of a firewall, or a route, between them and the node.
func (e *examination) unreached(r *Report) {
	type silence struct {
		who     []string
		longest time.Duration
	}
	silent := map[string]silence{}
	for _, c := range r.Candidates {
		for _, n := range c.Nodes {
			down := slices.ContainsFunc(r.Nodes, func(here elector.NodeStatus) bool {
				return here.Node == n.Name && (!here.Reachable || r.holdsBack(here))
			})
			if s := silent[n.Name]; !down && n.SilentFor >= max(c.Lease, time.Second) {
				silent[n.Name] = silence{append(s.who, c.ID), max(s.longest, n.SilentFor)}
			}
		}
	}
	old, _ := unlike(r.Candidates)
	for _, name := range slices.Sorted(maps.Keys(silent)) {
		s := silent[name]
		if old != nil && len(without([]elector.VotingNode{{Name: name}}, asListed(r.Nodes))) > 0 {
			continue // see candidates: it may have been replaced
		}
		e.add(name, "unreached", LevelWarn, "look at the network and the firewalls between the hosts of these candidates and this node",
			"has not answered %s", list(s.who))
		e.since(time.Now().Add(-s.longest))
	}
}

// drift reports settings in which the candidates differ, because a deploy has not ended, or a
// machine was forgotten.
func (e *examination) drift(all []elector.CandidateStatus) {
	differ := func(name, advice string, of func(elector.CandidateStatus) string) {
		who := map[string][]string{}
		for _, c := range all {
			who[of(c)] = append(who[of(c)], c.ID)
		}
		delete(who, "") // not known
		var found []string
		for _, v := range slices.Sorted(maps.Keys(who)) {
			found = append(found, fmt.Sprintf("%s on %s", v, list(who[v])))
		}
		if len(found) > 1 {
			e.add("", name, LevelWarn, advice, "the candidates differ in %s: %s", name, strings.Join(found, "; "))
		}
	}
	differ("lease", "give all the same lease: those that differ from the leader's refuse to lead", func(c elector.CandidateStatus) string {
		if c.Lease == 0 {
			return ""
		}
		return c.Lease.String()
	})
	differ("succession", "give all the same succession: each waits by its own rule", func(c elector.CandidateStatus) string { return c.Succession })
}

// ready reports how many candidates could lead now.
func (e *examination) ready(r *Report) {
	all, able, resting := r.Candidates, 0, 0
	var why []string
	ended := "" // why one of those that rest has ended its term
	for _, c := range all {
		switch {
		case c.Able() || c.Healthy && c.Role == "stopping":
			able++
		case c.RestFor > 0 && c.Healthy: // normal after each step-down
			resting++
			ended, _, _ = strings.Cut(c.RestReason, ":")
			why = append(why, strings.TrimSuffix(fmt.Sprintf("%s rests for another %v after %s", c.ID, short(c.RestFor), c.RestReason), " after "))
		case c.Detail != "":
			why = append(why, c.ID+": "+c.Detail)
		default:
			why = append(why, fmt.Sprintf("%s is %s", c.ID, c.Role))
		}
	}
	level, advice := LevelWarn, "fix the work or its probe"
	if able == 0 && r.Leader == nil && r.MayLead == nil && !r.Paused {
		level = LevelFail
	}
	switch {
	case resting == len(why):
		advice = cmp.Or(unwanted[elector.Reason(ended)], "wait") + ": " + e.command("history", r.Election)
	case protocol.OfGroup(r.Election), slices.ContainsFunc(all, func(c elector.CandidateStatus) bool { return c.Unable }): // the probe of an assigner is ours
		advice = "fix Redis, or the configuration, as the message says"
	}
	if len(why) > reasons {
		advice += "; see all of them: " + e.command("status", r.Election, "--wide")
	}
	switch {
	case able == len(all):
		return
	case level == LevelFail:
	case able+resting == len(all):
		level, advice = LevelOK, ""
	}
	e.add("", "able", level, advice, "%d of %d candidates could lead: %s", able, len(all), strings.Join(why[:min(reasons, len(why))], "; "))
	if level == LevelFail {
		e.since(r.Vacant())
	}
}

// reasons is how many candidates are named that could not lead, each with its reason.
const reasons = 3

// byList groups candidates that vote with the same nodes.
func byList(all []elector.CandidateStatus) (lists [][]elector.CandidateStatus) {
	for _, c := range all {
		i := slices.IndexFunc(lists, func(list []elector.CandidateStatus) bool { return list[0].SameNodes(c) })
		if i < 0 {
			i, lists = len(lists), append(lists, nil)
		}
		lists[i] = append(lists[i], c)
	}
	return lists
}

// unlike returns two candidates that have a node each which the other one has not, by its name, where no identity shows whether
// the two are one server: that of the first one has not answered lately. nil: there are none.
func unlike(all []elector.CandidateStatus) (a, b *elector.CandidateStatus) {
	for i := range all {
		for _, pair := range [][2]*elector.CandidateStatus{{&all[0], &all[i]}, {&all[i], &all[0]}} {
			if slices.ContainsFunc(without(pair[0].Nodes, pair[1].Nodes), unidentified) {
				return pair[0], pair[1]
			}
		}
	}
	return nil, nil
}

func unidentified(n elector.VotingNode) bool { return n.Identity == "" }

// without returns the nodes that are not among others, by name and by identity.
func without(nodes, others []elector.VotingNode) []elector.VotingNode {
	return slices.DeleteFunc(slices.Clone(nodes), func(n elector.VotingNode) bool {
		return slices.ContainsFunc(others, func(o elector.VotingNode) bool {
			return o.Name == n.Name || o.Identity == n.Identity && !unidentified(n)
		})
	})
}

func idsOf(all []elector.CandidateStatus) (ids []string) {
	for _, c := range all {
		ids = append(ids, c.ID)
	}
	return ids
}

// namesIn returns the names of nodes, in any order.
func namesIn(nodes []elector.VotingNode) string {
	names := strings.Fields(namesOf(nodes))
	slices.Sort(names)
	return strings.Join(names, " ")
}

// namesOf lists nodes for people.
func namesOf(nodes []elector.VotingNode) string {
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = n.Name
	}
	return strings.Join(names, " ")
}

// An election is flapping when its leadership was lost flaps times within flapsIn.
const (
	flaps   = 3
	flapsIn = 10 * time.Minute
)

// unwanted are the reasons that need an explanation, each with the advice where to look for it.
var unwanted = map[elector.Reason]string{
	elector.ReasonUnhealthy: "fix the work or its probe",
	elector.ReasonExpired:   "see which nodes did not confirm the renewals, or whether processes were suspended",
	elector.ReasonLost:      "find out what deletes or evicts the lock",
	elector.ReasonDataLost:  "find out what empties the nodes: FLUSHALL, eviction (maxmemory-policy), or a restart without persistence",
	elector.ReasonFailed:    "the work fails: read its log, on the hosts of the candidates",
	elector.ReasonPanicked:  "the work fails: read its log, on the hosts of the candidates",
	elector.ReasonCrashed:   "look for processes that are killed, and at their machines",
	elector.ReasonVanished:  "look for processes that are killed, and at their machines",
}

// lossIn is for how long a loss of data is reported.
const lossIn = time.Hour

// dataLoss reports that the nodes have lost their data lately, as a leader has noticed or the history shows. What
// they had of other elections is lost, too.
func (e *examination) dataLoss(r *Report, now time.Time) {
	level := map[bool]Level{true: LevelNote, false: LevelWarn}[r.Leader != nil]
	for _, t := range r.Terms {
		if t.Reason == elector.ReasonDataLost && now.Sub(t.Until) < lossIn {
			e.add("", "data", level, "find out what emptied them: FLUSHALL, eviction (maxmemory-policy), or a restart without persistence; pause again what was paused",
				"the nodes lost all their data, at %s: pauses and histories are gone", t.Until.Local().Format("15:04:05 MST"))
			return
		}
	}
}

// flapping reports an election whose leadership is lost again and again although no operator requested
// it, with the most frequent reason. It is over when a term has lasted for longer than those.
func (e *examination) flapping(r *Report, now time.Time) {
	count := map[elector.Reason]int{}
	var reasons []elector.Reason          // the newest first
	detail := map[elector.Reason]string{} // of the newest term that ended so
	all := 0
	for _, t := range r.Terms {
		end := cmp.Or(t.Until, t.From)                                             // From: of a term that vanished
		if t.Current || now.Sub(end).Abs() > flapsIn || unwanted[t.Reason] == "" { // a leader's clock may be ahead
			continue
		}
		all++
		if count[t.Reason]++; count[t.Reason] == 1 {
			reasons = append(reasons, t.Reason)
		}
		detail[t.Reason] = cmp.Or(detail[t.Reason], t.Detail)
	}
	if all < flaps {
		return
	}
	level := map[bool]Level{true: LevelNote, false: LevelWarn}[r.Leader != nil && now.Sub(r.Leader.Since) > flapsIn/flaps]
	slices.SortStableFunc(reasons, func(a, b elector.Reason) int { return cmp.Compare(count[b], count[a]) })
	var parts []string
	for _, reason := range reasons {
		parts = append(parts, fmt.Sprintf("%d %s", count[reason], reason))
	}
	most, found := reasons[0], strings.Join(parts, ", ")
	if detail[most] != "" {
		found += " (" + detail[most] + ")"
	}
	e.add("", "flapping", level, unwanted[most]+": "+e.command("history", r.Election), "%d terms of the last %d min ended unwanted: %s", all, int(flapsIn.Minutes()), found)
}
