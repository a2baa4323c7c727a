package elector

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/registry"
)

// Timeline is what happened in one election, or in several: the terms and the operator actions that
// the nodes have recorded, which elections have no leader now, and for how long each had one.
// Election.Timeline and Quorum.Timeline return no nil lists.
type Timeline struct {
	Terms     []TermRecord  `json:"terms"`     // newest first
	Pauses    []PauseRecord `json:"pauses"`    // newest first
	Vacancies []Vacancy     `json:"vacancies"` // elections that no candidate leads now, the newest first
	// Availability is one summary per election with a recorded term, by name.
	Availability []Availability `json:"availability"`
}

// Timeline returns what happened in the election since a moment (the zero time: everything
// recorded), with its last n terms at most. Bounds and errors are those of History. With an error
// it returns what the nodes that answered have recorded.
func (el *Election) Timeline(ctx context.Context, n int, since time.Time) (Timeline, error) {
	if err := checkOpen(el.nodes); err != nil {
		return Timeline{}.filled(), err
	}
	n = min(max(n, 1), maxRecords)
	p, err := el.past(ctx, entriesOf(n)+pauseEntries, n, since)
	return timelineOf(p, n, since, time.Now()).filled(), err
}

// pauseEntries is how many operator actions are expected among the entries of the terms. Where
// there are more, the history is read a second time.
const pauseEntries = 20

// filled returns t with empty lists in place of nil ones, for JSON.
func (t Timeline) filled() Timeline {
	t.Terms, t.Pauses = append([]TermRecord{}, t.Terms...), append([]PauseRecord{}, t.Pauses...)
	t.Vacancies, t.Availability = append([]Vacancy{}, t.Vacancies...), append([]Availability{}, t.Availability...)
	return t
}

// timelineOf returns the time line of one election: its last n terms that had not ended before
// since, and the operator actions of that time. It reads no clock.
func timelineOf(p past, n int, since, now time.Time) (t Timeline) {
	t.Terms = p.terms[:min(n, len(p.terms))]
	summed := t.Terms
	if i := slices.IndexFunc(t.Terms, func(r TermRecord) bool { return r.endedBefore(since) }); i >= 0 {
		// The last term before since shows from when on there was no leader. Without it an outage
		// that began before since would not be counted.
		t.Terms, summed = t.Terms[:i], t.Terms[:i+1]
	}
	if v, vacant := vacancyOf(p, now); vacant {
		t.Vacancies = []Vacancy{v}
	}
	a, ok := availabilityOf(summed, p, since, now)
	if ok {
		a.Terms = len(t.Terms)
		t.Availability = []Availability{a}
	}
	from := since
	if from.Before(a.From) {
		from = a.From
	}
	for _, pause := range p.pauses {
		if pause.Until.IsZero() || pause.Until.After(from) {
			t.Pauses = append(t.Pauses, pause)
		}
	}
	return t
}

// Timeline returns the time line of several elections of this Quorum's prefix since a moment, with
// the last n terms of each at most. The lists of all elections are merged, newest first.
//
// It queries each node for up to a hundred elections per round trip, so a thousand elections take
// about ten round trips (and more where many pauses are newer than the terms). It waits for each
// answer at most 5 s; once a majority of the nodes has answered, it waits for the others only a few
// times as long as that took. The error is ErrUnreachable when no majority of the nodes answered
// for any election; any other error of the nodes names what is missing from the returned Timeline.
func (q *Quorum) Timeline(ctx context.Context, elections []string, n int, since time.Time) (Timeline, error) {
	t := Timeline{}.filled()
	if err := checkOpen(q.nodes); err != nil {
		return t, err
	}
	n = min(max(n, 1), maxRecords)
	keys := make([]protocol.Keys, len(elections))
	for i, name := range elections {
		el, err := q.Election(name)
		if err != nil {
			return t, err
		}
		keys[i] = el.keys
	}
	all := registry.RecallMany(ctx, q.nodes, keys, entriesOf(n)+pauseEntries, since, recallTimeout)
	q.recallWhole(ctx, elections, keys, all, n, since)
	now := time.Now()
	var failed []error // of the first election that could not be read, by node
	unread := 0
	for i, name := range elections {
		p, errs := pastOfMany(name, keys[i], all[i], q.nodes.Majority(), now)
		if answersOf(errs) < q.nodes.Majority() {
			if unread++; failed == nil {
				failed = errs
			}
		}
		t.add(timelineOf(p, n, since, now))
	}
	t.sort()
	switch {
	case unread == 0:
		return t, nil
	case unread == len(elections):
		return t, noMajority(q.nodes, failed)
	default:
		return t, &QuorumError{Problem: fmt.Sprintf("%d of %d elections could not be read", unread, len(elections)), Nodes: nodeErrors(failed)}
	}
}

// recallTimeout bounds one answer with up to a hundred histories.
const recallTimeout = 5 * time.Second

// recallWhole reads the whole history of each election whose entries in all don't cover the terms.
// If a majority of the nodes answers, it replaces the entries in all.
func (q *Quorum) recallWhole(ctx context.Context, elections []string, keys []protocol.Keys, all [][]registry.Past, n int, since time.Time) {
	now, majority := time.Now(), q.nodes.Majority()
	var which []int
	var again []protocol.Keys
	for i, name := range elections {
		if !slices.ContainsFunc(all[i], func(node registry.Past) bool { return node.Cut }) {
			continue
		}
		if p, _ := pastOfMany(name, keys[i], all[i], majority, now); !p.covers(n, since) {
			which, again = append(which, i), append(again, keys[i])
		}
	}
	if len(which) == 0 {
		return
	}
	for j, nodes := range registry.RecallMany(ctx, q.nodes, again, protocol.WholeHistory, time.Time{}, recallTimeout) {
		answers := 0
		for _, node := range nodes {
			if node.Err == nil {
				answers++
			}
		}
		if answers >= majority {
			all[which[j]] = nodes
		}
	}
}

func pastOfMany(name string, keys protocol.Keys, nodes []registry.Past, majority int, now time.Time) (past, []error) {
	views, byNode, errs := make([]registry.View, len(nodes)), make([][]registry.Entry, len(nodes)), make([]error, len(nodes))
	for i, n := range nodes {
		views[i], byNode[i], errs[i] = n.View, n.Entries, n.Err
	}
	st, _ := summarize(name, keys, views, majority)
	// Not compared with the sitting leader's term: another one may have replaced it meanwhile.
	received, released := receiptsOf(byNode, name)
	return pastOf(st, answersOf(errs) >= majority, byNode, overlaps(released, received, nil), now), errs
}

func (t *Timeline) add(one Timeline) {
	t.Terms, t.Pauses = append(t.Terms, one.Terms...), append(t.Pauses, one.Pauses...)
	t.Vacancies, t.Availability = append(t.Vacancies, one.Vacancies...), append(t.Availability, one.Availability...)
}

// sort orders the lists by time, and Availability by name. It is stable: terms of one election stay
// in the order of their tokens.
func (t *Timeline) sort() {
	slices.SortStableFunc(t.Terms, func(a, b TermRecord) int { return b.Began().Compare(a.Began()) })
	slices.SortStableFunc(t.Pauses, func(a, b PauseRecord) int { return b.From.Compare(a.From) })
	slices.SortStableFunc(t.Vacancies, func(a, b Vacancy) int { return b.began().Compare(a.began()) })
	slices.SortStableFunc(t.Availability, func(a, b Availability) int { return cmp.Compare(a.Election, b.Election) })
}
