package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/internal/registry"
)

const sameList = "give all candidates the same list of nodes, in any order (docs/deploying.md: change the nodes or the lease)"

// sameHere is the advice when the nodes given here are not those of the candidates.
const sameHere = "give this command the same list of nodes as the candidates"

// candidates compares the candidates' answers with each other.
func (e *examination) candidates(r *Report) {
	if r.CandidatesErr != nil {
		e.add("", "candidates", LevelUnknown, "", "the roll could not be called: %s", problemOf(r.CandidatesErr))
		return
	}
	if leaders := leadersOf(r.Candidates); len(leaders) > 1 {
		var who []string
		for _, c := range leaders {
			who = append(who, fmt.Sprintf("%s (token %d) on %s", c.ID, c.Token, namesOf(c.Nodes)))
		}
		e.add("", "leaders", LevelFail, "if they still do: stop all but one of them now; then "+sameList,
			"%d candidates lead at the same time, or the leader has just changed: %s", len(leaders), strings.Join(who, "; "))
	}
	for _, found := range twins(r.Candidates) {
		e.add("", "ids", LevelWarn, "give each its own id: events, status and history cannot distinguish them", "%s", found)
	}
	lists := byList(r.Candidates)
	switch {
	case len(lists) == 1:
		e.add("", "candidates", LevelOK, "", "%d answer, and vote with the same nodes", len(r.Candidates))
		return
	case len(lists) == 0:
		return
	case slices.ContainsFunc(r.Status.Nodes, func(n elector.NodeStatus) bool { return n.Abstains > 0 }):
		e.add("", "candidates", LevelUnknown, voteAgain,
			"whether they vote with the same nodes: one of these is new or lost its data, and not all candidates have met it since")
		return
	}
	var who []string
	for _, list := range lists {
		var ids []string
		for _, c := range list {
			ids = append(ids, c.ID)
		}
		who = append(who, fmt.Sprintf("%s with %s", strings.Join(ids, ", "), namesOf(list[0].Nodes)))
	}
	e.add("", "candidates", LevelFail, sameList+": two that can't meet may both lead", "they vote with different nodes: %s", strings.Join(who, "; "))
}

// sameHere compares the candidates' nodes with those given here.
func (e *examination) sameHere(all []elector.CandidateStatus) {
	here := elector.CandidateStatus{Nodes: make([]elector.VotingNode, len(e.facts))}
	for i, f := range e.facts {
		// A node that answers and has no identity, because no candidate has ever claimed there, is a
		// difference, too.
		if here.Nodes[i].Identity = f.View.ID; f.View.ID == "" && f.View.Err == nil {
			here.Nodes[i].Identity = fmt.Sprintf("none%d", i)
		}
	}
	switch {
	case len(byList(all)) != 1 || all[0].SameNodes(here):
	case e.emptied(all[0]):
		e.add("", "nodes", LevelUnknown, voteAgain, "whether the candidates vote with the nodes given here: one of these is new or lost its data")
	default:
		e.add("", "nodes", LevelFail, sameHere, "the candidates vote with other nodes than those given here: with %s", namesOf(all[0].Nodes))
	}
}

// voteAgain is the advice when nodes may either differ or have lost their data.
const voteAgain = "repeat this when the node votes again"

// emptied reports whether a node of a candidate has a new identity, or lost it a moment ago: it gets
// another one with the next renewal. The candidate may still know the former one, and so seem to vote
// with another node.
func (e *examination) emptied(c elector.CandidateStatus) bool {
	return slices.ContainsFunc(e.facts, func(f registry.Facts) bool {
		named := slices.ContainsFunc(c.Nodes, func(n elector.VotingNode) bool { return n.Name == f.Node })
		return f.View.Newcomer > 0 || f.View.ID == "" && named
	})
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
func (e *examination) ready(name string, all []elector.CandidateStatus) {
	observers := len(all)
	all = campaigning(all)
	observers -= len(all)
	able, resting := 0, 0
	var why []string
	for _, c := range all {
		switch {
		case c.Healthy && c.Role != "resting" && c.Role != "idle":
			able++
		case c.RestFor > 0: // normal after each step-down
			resting++
			why = append(why, fmt.Sprintf("%s rests for another %v", c.ID, short(c.RestFor)))
		case c.Detail != "":
			why = append(why, c.ID+": "+c.Detail)
		default:
			why = append(why, fmt.Sprintf("%s is %s", c.ID, c.Role))
		}
	}
	switch {
	case observers > 0 && len(all) == 0:
		e.add("", "able", LevelFail, "start a candidate that is no observer", "no candidate could lead: only observers answer (%d)", observers)
		return
	case observers > 0 && len(all) == 1 && all[0].Leads():
		e.add("", "able", LevelWarn, "start another candidate that is no observer", "nothing could replace %s: all others are observers (%d)", all[0].ID, observers)
		return
	case able == len(all):
		return
	}
	level, advice := LevelWarn, "see all of them: "+e.command("status", name, "-o", "wide")
	switch {
	case able+resting == len(all):
		level, advice = LevelOK, ""
	case able == 0:
		level = LevelFail
	}
	e.add("", "able", level, advice, "%d of %d candidates could lead: %s", able, len(all), strings.Join(why[:min(3, len(why))], "; "))
}

// campaigning returns the candidates of a roll call that are not observers.
func campaigning(all []elector.CandidateStatus) []elector.CandidateStatus {
	return slices.DeleteFunc(slices.Clone(all), func(c elector.CandidateStatus) bool { return c.Observes() })
}

// twins returns a text for each id that several candidates of a roll call have, with their processes.
// Events, status and history cannot distinguish such candidates.
func twins(all []elector.CandidateStatus) (found []string) {
	places := map[string][]string{}
	for _, c := range all {
		where := "host " + cmp.Or(c.Host, "unknown")
		if c.PID != 0 {
			where = fmt.Sprintf("process %d on %s", c.PID, where)
		}
		places[c.ID] = append(places[c.ID], where)
	}
	for _, id := range slices.Sorted(maps.Keys(places)) {
		if n := len(places[id]); n > 1 {
			found = append(found, fmt.Sprintf("%d candidates have the id %s: %s", n, id, list(places[id])))
		}
	}
	return found
}

// byList groups candidates that vote with the same nodes.
func byList(all []elector.CandidateStatus) (lists [][]elector.CandidateStatus) {
	for _, c := range all {
		i := slices.IndexFunc(lists, func(list []elector.CandidateStatus) bool { return list[0].SameNodes(c) })
		if i < 0 {
			lists = append(lists, []elector.CandidateStatus{c})
			continue
		}
		lists[i] = append(lists[i], c)
	}
	return lists
}

// namesOf lists nodes for people.
func namesOf(nodes []elector.VotingNode) string {
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = n.Name
	}
	return strings.Join(names, " ")
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
	level := LevelWarn
	if 2*(len(r.Status.Nodes)-len(nodes)) <= len(r.Status.Nodes) {
		level = LevelFail
	}
	for _, n := range nodes {
		e.add(n.Name, "refuses", level, cmp.Or(n.Remedy, remedy(n.Refusal)), "refuses %s: %s", list(who[n.Name]), strings.TrimRight(n.Refusal, "."))
	}
}
