package elector

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// TermRecord is one term as the history has it: as its leader reported it,
// and by the leader's clock. A hint, like all that stands in the history.
type TermRecord struct {
	Token     uint64    `json:"token"`
	Candidate string    `json:"candidate"`
	Advertise string    `json:"advertise,omitempty"`
	From      time.Time `json:"from,omitzero"`  // zero: trimmed from the history
	Until     time.Time `json:"until,omitzero"` // zero: it still leads, it vanished, or that is not known
	Current   bool      `json:"current"`        // it still leads
	Reason    Reason    `json:"reason,omitempty"`
	Detail    string    `json:"detail,omitempty"` // the reason in words

	// Overlaps are the tokens of other terms that were valid at the same time as this one:
	// two led at once, for more than 1 s. It must never happen; candidates with different
	// lists of nodes are the likely cause. Each node's clock tells when it received the
	// reports of both terms, and the leader of the earlier one for how long that was
	// valid: a leader that was paused, or whose work outran its lease, and reported its
	// end later overlaps with none. A term overlaps with the sitting leader's also when it
	// began more than 1 s after that one, which has held a majority of the locks since.
	// What can't be seen: terms of which no node received both reports, those whose earlier
	// leader vanished, and those of versions that did not report for how long they led.
	Overlaps []uint64 `json:"overlaps,omitempty"`

	// Lasted is how long the term lasted, or has lasted. Gap is the time from its
	// end to the begin of the next term; two machines' clocks are compared, so it
	// can even be negative. Zero: not known.
	Lasted time.Duration `json:"-"`
	Gap    time.Duration `json:"-"`

	id termID
}

// maxRecords is what the history of an election holds at most: about 1000
// events, two for a term.
const maxRecords = 500

// History returns the last n terms of the election (1 to 500; more or fewer are
// taken for these), newest first, merged from all nodes. It queries each node twice, and waits
// for each node at most 1.5 s each time (or until ctx ends). The error is
// ErrUnreachable, with each node's NodeError, when no majority returned its history,
// or who leads; what the others returned comes with it. While it is not known who
// leads, the newest term of which no end was reported is neither Current nor
// vanished: it has no Reason.
func (el *Election) History(ctx context.Context, n int) ([]TermRecord, error) {
	if err := checkOpen(el.nodes); err != nil {
		return nil, err
	}
	n = min(max(n, 1), maxRecords)
	st, lookErr := el.look(ctx)
	// One term more than requested, and the end of a still older one: the first
	// entries that are cut off must not make a term look like one that vanished.
	byNode, errs := el.nodes.Recall(ctx, el.keys, int64(2*n+2), statusTimeout)
	found := el.overlaps(ctx, st, byNode)
	records := recordsOf(eventsOf(byNode, st, found), st.Leader, time.Now())
	for i := range records {
		records[i].Overlaps = found[records[i].id]
	}
	if lookErr != nil && len(records) > 0 && records[0].Reason == ReasonVanished {
		records[0].Reason = "" // it may be the sitting leader's
	}
	if len(records) > n {
		records = records[:n]
	}
	answers := len(errs)
	for _, e := range errs {
		if e != nil {
			answers--
		}
	}
	if answers < el.nodes.Majority() {
		return records, noMajority(el.nodes, errs)
	}
	return records, lookErr
}

// overlaps finds the terms that overlap. That the sitting leader's does is believed only
// if it leads still: it may have been replaced while the history was read.
func (el *Election) overlaps(ctx context.Context, st Status, byNode [][]quorum.Entry) map[termID][]uint64 {
	received, released := receiptsOf(byNode, st.Election)
	holder := holderOf(received, released, st.Leader)
	found := overlaps(released, received, holder)
	if holder == nil || len(found[*holder]) == 0 {
		return found
	}
	again, err := el.look(ctx)
	if err != nil || again.Leader == nil || again.Leader.Token != st.Leader.Token || again.Leader.Incarnation != st.Leader.Incarnation {
		return overlaps(released, received, nil)
	}
	return found
}

// holderOf is the sitting leader's term, as the nodes received it; nil when they did not.
func holderOf(received []map[termID]receipt, released map[termID]Event, leader *Leader) *termID {
	if leader == nil {
		return nil
	}
	for _, node := range received {
		for id, r := range node {
			if _, ended := released[id]; !ended && !r.elected.IsZero() && id.leads(leader) {
				return &id
			}
		}
	}
	return nil
}

// eventsOf merges the nodes' entries. What no counter of Redis allows was
// forged, or is left from before the counters were lost; or it is of a leader with
// other nodes, whose term then is among those that overlap.
func eventsOf(byNode [][]quorum.Entry, st Status, overlap map[termID][]uint64) []Event {
	var highest uint64
	for _, n := range st.Nodes {
		highest = max(highest, n.Fence)
	}
	type word struct {
		kind EventKind
		term termID
	}
	seen := map[word]bool{}
	var events []Event
	for _, entries := range byNode {
		for _, entry := range entries {
			ev, err := parseEvent(entry.Event)
			if err != nil || ev.Election != st.Election || seen[word{ev.Kind, idOf(ev)}] ||
				highest > 0 && ev.Token > highest && overlap[idOf(ev)] == nil {
				continue
			}
			seen[word{ev.Kind, idOf(ev)}] = true
			events = append(events, ev)
		}
	}
	return events
}

// recordsOf makes terms of events, newest first.
func recordsOf(events []Event, leader *Leader, now time.Time) []TermRecord {
	terms := map[termID]*TermRecord{}
	for _, ev := range events {
		t := terms[idOf(ev)]
		if t == nil {
			t = &TermRecord{Token: ev.Token, Candidate: ev.Candidate, Advertise: ev.Advertise, id: idOf(ev)}
			terms[t.id] = t
		}
		switch ev.Kind { //nolint:exhaustive // the history holds no others
		case EventElected:
			t.From = ev.Time
		case EventReleased:
			t.Until, t.Reason, t.Detail = ev.Time, ev.Reason, ev.Detail
			t.Advertise = cmp.Or(ev.Advertise, t.Advertise) // the last one of the term
		}
	}
	records := make([]TermRecord, 0, len(terms))
	for _, t := range terms {
		if t.From.IsZero() && t.Until.IsZero() {
			continue // of a later version
		}
		t.Current = leader != nil && t.Until.IsZero() && t.id.leads(leader)
		switch {
		case t.Current:
			t.Lasted = now.Sub(t.From)
		case t.Until.IsZero():
			t.Reason = ReasonVanished
		case !t.From.IsZero():
			t.Lasted = t.Until.Sub(t.From)
		}
		records = append(records, *t)
	}
	slices.SortFunc(records, func(a, b TermRecord) int { return compareIDs(b.id, a.id) })
	for i := 1; i < len(records); i++ {
		if next, r := records[i-1], &records[i]; !next.From.IsZero() && !r.Until.IsZero() {
			r.Gap = next.From.Sub(r.Until)
		}
	}
	return records
}
