package elector

import (
	"cmp"
	"slices"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/registry"
)

// overlapTolerance is what two terms may overlap by before they are marked: reports
// arrive late, and clocks run at slightly different rates.
const overlapTolerance = time.Second

// maxHeld bounds what a report may claim, so that no sum of it and a time overflows.
const maxHeld = 10 * 365 * 24 * time.Hour

// termID names a term: candidates with different lists of nodes can be granted one and
// the same token.
type termID struct {
	token                  uint64
	candidate, incarnation string
}

func idOf(ev Event) termID { return termID{ev.Token, ev.Candidate, ev.Incarnation} }

// leads reports whether it is the leader's term, as far as both name an incarnation.
func (id termID) leads(l *Leader) bool {
	return id.token == l.Token && (l.Candidate == "" || id.candidate == l.Candidate) && l.sameLife(Event{Incarnation: id.incarnation})
}

// receipt is when one node received the reports of a term, by that node's clock.
// Zero: it did not. late is the age that its report of the end gives: another node
// may have received that report sooner.
type receipt struct {
	elected, released time.Time
	late              time.Duration
}

// span is when a term began and ended at the latest, by one node's clock; an end of
// zero is unknown.
type span struct{ begin, end time.Time }

// overlaps finds the terms that were valid at the same time. The reports of a term are
// what its leader announced, by term; received is when each node received them; holder
// is the term whose lock a majority of the nodes held before and after the history was
// read, if known.
//
// Only times of one node's clock are compared with each other, and durations of a
// leader's own clock are added to them: no clock is compared with another's. Of
// several nodes that received both, the one with the smallest overlap counts, so a clock
// that was set, or a node that was suspended and read its requests late, raises no
// alarm; what a node received while its clock stood still counts for nothing. A term of which no end was reported may have ended at once.
func overlaps(released map[termID]Event, received []map[termID]receipt, holder *termID) map[termID][]uint64 {
	type pair struct{ a, b termID }
	everywhere := map[pair]bool{} // whether all nodes that can tell agree that the two overlap
	for _, node := range received {
		ids := make([]termID, 0, len(node))
		spans := make(map[termID]span, len(node))
		for id, r := range node {
			if s := spanOf(r, released[id]); !s.begin.IsZero() {
				ids, spans[id] = append(ids, id), s
			}
		}
		slices.SortFunc(ids, compareIDs)
		for i, a := range ids {
			for _, b := range ids[i+1:] {
				p := pair{a, b}
				before, known := everywhere[p]
				everywhere[p] = (before || !known) && overlap(a, b, spans, holder)
			}
		}
	}
	found := map[termID][]uint64{}
	for p, yes := range everywhere {
		if yes {
			found[p.a] = append(found[p.a], p.b.token)
			found[p.b] = append(found[p.b], p.a.token)
		}
	}
	for _, tokens := range found {
		slices.Sort(tokens)
	}
	return found
}

// overlap reports whether the later of two terms began before the earlier one had ended.
func overlap(a, b termID, spans map[termID]span, holder *termID) bool {
	if spans[b].begin.Before(spans[a].begin) {
		a, b = b, a
	}
	first, next := spans[a], spans[b]
	if holder != nil && *holder == a {
		return next.begin.Sub(first.begin) > overlapTolerance
	}
	return !first.end.IsZero() && first.end.Sub(next.begin) > overlapTolerance
}

// spanOf computes a term's span on a node. Each report bounds both its begin and its
// end, and arrives late or in time, never early: the smaller bound counts. The end is
// that of the lease where the leader outlived it: what a leader that was paused reports
// when it wakes up is long over.
func spanOf(r receipt, released Event) (s span) {
	s.begin = r.elected
	held, late := released.Held, r.late
	if held <= 0 || held > maxHeld || late < 0 || late > maxHeld { // earlier versions did not report them
		return s
	}
	if !r.elected.IsZero() {
		s.end = r.elected.Add(held)
	}
	if !r.released.IsZero() {
		end := r.released.Add(-late)
		if s.end.IsZero() || end.Before(s.end) {
			s.end = end
		}
		if begin := end.Add(-held); s.begin.IsZero() || begin.Before(s.begin) {
			s.begin = begin
		}
	}
	return s
}

// receiptsOf is when each node received what was reported, and the reports of ends.
func receiptsOf(byNode [][]registry.Entry, election string) (received []map[termID]receipt, released map[termID]Event) {
	released = map[termID]Event{}
	for _, entries := range byNode {
		node := map[termID]receipt{}
		reports := reportsIn(entries, election)
		stood := stoodStill(reports)
		for _, r := range reports {
			ev, id := r.ev, idOf(r.ev)
			seen := node[id]
			switch at := r.at; ev.Kind { //nolint:exhaustive // the history holds no others
			case EventElected:
				if stood[at] {
					break
				}
				seen.elected = at.Add(-ev.lateness()) // if late, it was recorded when the node could be reached again
			case EventReleased:
				seen.late, released[id] = ev.Late, ev
				if !stood[at] {
					seen.released = at
				}
			}
			node[id] = seen
		}
		received = append(received, node)
	}
	return received, released
}

// arrival is a report, and when a node received it.
type arrival struct {
	at time.Time
	ev Event
}

func reportsIn(entries []registry.Entry, election string) (reports []arrival) {
	for _, entry := range entries {
		if ev, err := parseEvent(entry.Event); err == nil && ev.Election == election {
			reports = append(reports, arrival{entry.At, ev})
		}
	}
	return reports
}

// stoodStill finds the times that a node gave to reports which it received one after the
// other: a stream's times never decrease, so those of a clock that was set back, or of an
// entry that bears a time to come, are the same until that time has passed. When these
// reports were received is not known, and a term that lasted would reach back from its end
// into the one before.
func stoodStill(reports []arrival) map[time.Time]bool {
	type bounds struct{ from, until time.Time } // the last that was received from then, the first until then
	all := map[time.Time]bounds{}
	stood := map[time.Time]bool{}
	for _, r := range reports {
		from, until := r.ev.Time, r.ev.Time.Add(r.ev.lateness()) // by the clock of its reporter
		if r.ev.Kind == EventElected {
			from = until
		}
		b, more := all[r.at]
		if !more || from.After(b.from) {
			b.from = from
		}
		if !more || until.Before(b.until) {
			b.until = until
		}
		all[r.at] = b
		stood[r.at] = b.from.Sub(b.until) > overlapTolerance
	}
	return stood
}

// lateness is how late a report was, as far as that can be.
func (ev Event) lateness() time.Duration {
	if ev.Late > maxHeld {
		return 0
	}
	return max(0, ev.Late)
}

func compareIDs(a, b termID) int {
	return cmp.Or(cmp.Compare(a.token, b.token), cmp.Compare(a.candidate, b.candidate), cmp.Compare(a.incarnation, b.incarnation))
}
