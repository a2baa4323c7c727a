package elector

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// rollCall is what the candidates of an election answer.
type rollCall struct {
	all     []CandidateStatus
	leaders []CandidateStatus // those that lead at the same time
	err     error
}

// callRoll asks the candidates. Two answers of a leader may be those of one before and
// of one after a change: then it asks once more.
func callRoll(ctx context.Context, el *Election) (r rollCall) {
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	if r.all, r.err = el.Candidates(ctx); r.err != nil {
		return r
	}
	if r.leaders = leadersOf(r.all); len(r.leaders) < 2 {
		return r
	}
	again, err := el.Candidates(ctx)
	if err != nil {
		return r
	}
	r.leaders = slices.DeleteFunc(r.leaders, func(c CandidateStatus) bool {
		return !slices.ContainsFunc(leadersOf(again), func(o CandidateStatus) bool { return o.Incarnation == c.Incarnation && o.Token == c.Token })
	})
	return r
}

func leadersOf(all []CandidateStatus) []CandidateStatus {
	return slices.DeleteFunc(slices.Clone(all), func(c CandidateStatus) bool { return c.Role != RoleLeading })
}

const sameList = "give all candidates the same list of nodes, in any order (docs/deploying.md: change the nodes or the lease)"

// candidates compares what they say with each other, and with the nodes given here.
func (d *diagnosis) candidates(r rollCall) {
	if r.err != nil {
		d.add("", "candidates", Unknown, "", "the roll could not be called: %s", words(r.err))
		return
	}
	if len(r.leaders) > 1 {
		var who []string
		for _, c := range r.leaders {
			who = append(who, fmt.Sprintf("%s (token %d) on %s", c.ID, c.Token, namesOf(c.Nodes)))
		}
		d.add("", "leaders", Fail, "stop all but one of them now; then "+sameList, "%d candidates lead at the same time: %s", len(r.leaders), strings.Join(who, "; "))
	}
	for id, same := range twinsOf(r.all) {
		d.add("", "ids", Warn, "give each its own id: events, status and history cannot distinguish them",
			"%d candidates have the id %s, on %s and %s", len(same), id, same[0].Host, same[1].Host)
	}
	lists := byList(r.all)
	if len(lists) > 1 {
		var who []string
		for _, list := range lists {
			var ids []string
			for _, c := range list {
				ids = append(ids, c.ID)
			}
			who = append(who, fmt.Sprintf("%s with %s", strings.Join(ids, ", "), namesOf(list[0].Nodes)))
		}
		d.add("", "candidates", Fail, sameList+": two that can't meet may both lead", "they vote with different nodes: %s", strings.Join(who, "; "))
		return
	}
	here := CandidateStatus{Nodes: make([]VotingNode, len(d.facts))}
	for i, id := range d.identities() {
		here.Nodes[i].Identity = id
	}
	switch {
	case len(r.all) == 0:
	case !r.all[0].SameNodes(here):
		d.add("", "candidates", Fail, "list the same nodes here and there", "they vote with other nodes than those given here: with %s", namesOf(r.all[0].Nodes))
	default:
		d.add("", "candidates", OK, "", "%d answer, and vote with the same nodes", len(r.all))
	}
}

// byList groups candidates that vote with the same nodes.
func byList(all []CandidateStatus) (lists [][]CandidateStatus) {
	for _, c := range all {
		i := slices.IndexFunc(lists, func(list []CandidateStatus) bool { return list[0].SameNodes(c) })
		if i < 0 {
			lists = append(lists, []CandidateStatus{c})
			continue
		}
		lists[i] = append(lists[i], c)
	}
	return lists
}

// identities are those of the nodes given here. Nobody has ever claimed at one that
// answers and has none: that is a difference, too.
func (d *diagnosis) identities() []string {
	ids := make([]string, len(d.facts))
	for i, f := range d.facts {
		if ids[i] = f.View.ID; ids[i] == "" && f.View.Err == nil {
			ids[i] = fmt.Sprintf("none%d", i)
		}
	}
	return ids
}

// holders compares the lock values that the nodes hold.
func (d *diagnosis) holders() {
	var values []string
	for _, f := range d.facts {
		values = append(values, f.View.Holder)
	}
	if found := conflict(values); found != "" {
		d.add("", "locks", Fail, sameList, "%s", found)
	}
	known := quorum.IdentitiesOf(d.identities()).Known()
	for _, value := range values {
		if b, err := quorum.ParseBallot(value); err == nil && b.Nodes == len(d.facts) && b.Identities.Differ(known, b.Nodes) {
			d.add("", "nodes", Fail, "list the same nodes here and there", "%s, which holds a lock, votes with other nodes than those given here", b.Candidate)
			return
		}
	}
}

// recentTerms are what the history tells of late.
func recentTerms(ctx context.Context, el *Election) ([]TermRecord, error) {
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	return el.History(ctx, 50)
}

// unreadable reports a history that can't be read, or be written either: a key of
// another type, or a right that is missing. That nodes are away other checks say.
func (d *diagnosis) unreadable(err error) {
	var node *quorum.NodeError
	switch {
	case errors.Is(err, ErrDenied):
		d.add("", "history", Unknown, "grant +xrevrange to see it", "%s can't be read: %s", d.keys.History, words(err))
	case errors.As(err, &node) && quorum.Advice(node.Err) != "":
		d.add("", "history", Warn, "if nothing else uses it: redis-cli DEL '"+d.keys.History+"'",
			"%s can't be read, and no term is recorded: %s", d.keys.History, words(err))
	}
}

// overlaps names the newest terms that were valid at the same time.
func (d *diagnosis) overlaps(terms []TermRecord) {
	i := slices.IndexFunc(terms, func(r TermRecord) bool { return len(r.Overlaps) > 0 })
	if i < 0 {
		return
	}
	newest := terms[i]
	who, level, count := []string{nameOf(newest)}, Warn, 0
	unnamed := slices.Clone(newest.Overlaps) // too old to be listed, unless found below
	for _, r := range terms {
		if len(r.Overlaps) == 0 {
			continue
		}
		count++
		if r.Current {
			level = Fail
		}
		if r.id != newest.id && slices.Contains(newest.Overlaps, r.Token) {
			who = append(who, nameOf(r))
			unnamed = slices.DeleteFunc(unnamed, func(token uint64) bool { return token == r.Token })
		}
	}
	for _, token := range unnamed[:min(5, len(unnamed))] {
		who = append(who, fmt.Sprintf("another (token %d)", token))
	}
	d.add("", "overlap", level, "look for work that was done twice, and for the cause: "+sameList,
		"%d terms of the history overlap, the newest are those of %s", count, strings.Join(who, " and "))
}

func nameOf(r TermRecord) string {
	at := r.From
	if at.IsZero() {
		at = r.Until
	}
	return fmt.Sprintf("%s (token %d, %s)", r.Candidate, r.Token, at.UTC().Format(time.RFC3339))
}
