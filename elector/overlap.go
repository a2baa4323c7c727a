package elector

import (
	"cmp"
	"slices"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/registry"
)

// overlapTolerance is how long two terms may overlap before they are marked: reports
// arrive late, and clocks run at slightly different rates.
const overlapTolerance = time.Second

// maxHeld bounds the durations in a report, so that no sum of one and a time overflows.
const maxHeld = 10 * 365 * 24 * time.Hour

// termID identifies a term. The token is not enough: candidates with different lists of nodes
// can be granted the same one.
type termID struct {
	token                  uint64
	candidate, incarnation string
}

func idOf(ev Event) termID { return termID{ev.Token, ev.Candidate, ev.Incarnation} }

// leads reports whether this is the leader's term. The incarnations count only if both are known.
func (id termID) leads(l *Leader) bool {
	return id.token == l.Token && (l.Candidate == "" || id.candidate == l.Candidate) && l.sameLife(Event{Incarnation: id.incarnation})
}

// receipt is when one node received the reports of a term's begin and end, by that node's
// clock. Zero: it did not. late is Event.Late of the report of the end: another node may
// have received that report sooner.
type receipt struct {
	elected, released time.Time
	late              time.Duration
}

// span is when a term began and ended at the latest, by one node's clock; an end of
// zero is unknown.
type span struct{ begin, end time.Time }

// overlaps finds the terms that were valid at the same time, and returns the tokens of the
// other terms for each. released holds the reports of the ends, by term; received is when each
// node received the reports; holder is the term whose lock a majority of the nodes held before
// and after the history was read, if known.
//
// Only times of one node's clock are compared with each other, and durations of a leader's own
// clock are added to them: no clock is compared with another's. Two terms overlap only if they
// do on every node that received the reports of both. So a clock that was set, or a node that
// was suspended and read its requests late, raises no alarm. What a node received while its clock
// stood still is not used. A term of which no end was reported may have ended at once.
func overlaps(released map[termID]Event, received []map[termID]receipt, holder *termID) map[termID][]uint64 {
	type pair struct{ a, b termID }
	everywhere := map[pair]bool{} // whether the two overlap on all nodes that received both
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

// spanOf computes a term's span by a node's clock. Each report bounds both the begin and the end
// of the term, and arrives late or in time, never early: the smaller bound counts. Where the
// leader outlived its lease, the span ends with the lease: when a paused leader wakes up and
// reports its end, its term is long over.
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

// receiptsOf returns when each node received the reports of each term, and the reports of the ends.
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

// stoodStill finds the times that a node gave to several reports although they were sent more than
// overlapTolerance apart. The times in a stream never decrease: after the node's clock was set back,
// or after an entry with a time in the future, all entries get the same time until the clock has
// passed it. When such reports were received is not known; taken at their time, a term that lasted
// long would reach back from its end into the one before.
func stoodStill(reports []arrival) map[time.Time]bool {
	// The last report of that time was sent after from, and the first one before until, by the
	// clocks of their reporters.
	type bounds struct{ from, until time.Time }
	all := map[time.Time]bounds{}
	stood := map[time.Time]bool{}
	for _, r := range reports {
		from, until := r.ev.Time, r.ev.Time.Add(r.ev.lateness()) // sent between these
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

// lateness returns Late, or 0 if that is out of bounds.
func (ev Event) lateness() time.Duration {
	if ev.Late > maxHeld {
		return 0
	}
	return max(0, ev.Late)
}

func compareIDs(a, b termID) int {
	return cmp.Or(cmp.Compare(a.token, b.token), cmp.Compare(a.candidate, b.candidate), cmp.Compare(a.incarnation, b.incarnation))
}
