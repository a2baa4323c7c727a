package elector

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/registry"
)

// TermRecord is one term as the history has it: as its leader reported it,
// and by the leader's clock. A hint, like all that stands in the history.
type TermRecord struct {
	Election  string    `json:"election"`
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
	// lists of nodes are the likely cause. Each node's clock shows when it received the
	// reports of both terms, and the leader of the earlier one for how long that was
	// valid: a leader that was paused, or whose work outran its lease, and reported its
	// end later overlaps with none. A term overlaps with the sitting leader's also when it
	// began more than 1 s after that one, which has held a majority of the locks since.
	// What can't be seen: terms of which no node received both reports, those whose earlier
	// leader vanished, and those of versions that did not report for how long they led.
	Overlaps []uint64 `json:"overlaps,omitempty"`

	// Lasted is how long the term lasted, or has lasted: of a leader that was suspended and reported
	// its end later, until its lease ended. Gap is the time from its
	// end to the begin of the next term; two machines' clocks are compared, so it
	// can even be negative. Zero: not known.
	Lasted time.Duration `json:"-"`
	Gap    time.Duration `json:"-"`

	// MaxLasted and MaxGap are the bounds of what is not known exactly: a leader that
	// vanished led for at most so long, and until the next term began there was no leader
	// for at most so long: since that leader renewed a lease that the next one has seen, or
	// since the term began. Zero: known exactly, or not at all.
	MaxLasted time.Duration `json:"-"`
	MaxGap    time.Duration `json:"-"`

	id     termID
	held   time.Duration // for how long the lease covered it; zero: not known
	vacant time.Duration // for how long there had been no leader before it, at most; zero: not known
}

// Began is where the term stands in a time line: when it began, or ended if that was trimmed.
func (r TermRecord) Began() time.Time { return cmp.Or(r.From, r.Until) }

// maxRecords is what the history of an election holds at most: about 1000
// events, two for a term.
const maxRecords = 500

// History returns the last n terms of the election (1 to 500; more or fewer are
// taken for these), newest first, merged from all nodes. It queries each node twice, or three
// times where many pauses stand before these terms, and waits for each node at most 1.5 s each
// time (or until ctx ends). The error is
// ErrUnreachable, with each node's NodeError, when no majority returned its history,
// or who leads; what the others returned comes with it. While it is not known who
// leads, the newest term of which no end was reported is neither Current nor
// vanished: it has no Reason.
func (el *Election) History(ctx context.Context, n int) ([]TermRecord, error) {
	if err := checkOpen(el.nodes); err != nil {
		return nil, err
	}
	n = min(max(n, 1), maxRecords)
	past, err := el.past(ctx, entriesOf(n), n, time.Time{})
	return past.terms[:min(n, len(past.terms))], err
}

// entriesOf is how many entries of a history stream hold n terms: one more than requested,
// and the end of a still older one. The first entries that are cut off must not make a term
// look like one that vanished.
func entriesOf(n int) int { return 2*n + 2 }

// past is what an election's history and its nodes show.
type past struct {
	status Status
	known  bool // who leads
	terms  []TermRecord
	pauses []PauseRecord
	asked  []VersionRecord // what operators decided about versions
	// cordons are those of the election's prefix, where they were read.
	cordons []CordonRecord
}

// covers reports whether the terms that were read are the last n, with their begins, or all
// since a moment (the zero time: any), with the one before: pauses stand in the same stream as
// the terms, any number of them.
func (p past) covers(n int, since time.Time) bool {
	if len(p.terms) >= n && !slices.ContainsFunc(p.terms[:n], func(r TermRecord) bool { return r.From.IsZero() }) {
		return true
	}
	return !since.IsZero() && slices.ContainsFunc(p.terms, func(r TermRecord) bool { return r.Began().Before(since) })
}

// past reads up to so many entries of each node's history, and all of them if these don't
// cover the last n terms, or those since a moment.
func (el *Election) past(ctx context.Context, entries, n int, since time.Time) (past, error) {
	st, lookErr := el.look(ctx)
	byNode, errs := registry.Recall(ctx, el.nodes, el.keys, int64(entries), statusTimeout)
	cut := slices.ContainsFunc(byNode, func(node []registry.Entry) bool { return len(node) >= entries })
	if cut && !pastOf(st, lookErr == nil, byNode, nil, time.Now()).covers(n, since) {
		all, allErrs := registry.Recall(ctx, el.nodes, el.keys, protocol.WholeHistory, statusTimeout)
		for i, err := range allErrs {
			if err == nil {
				byNode[i], errs[i] = all[i], nil
			}
		}
	}
	p := pastOf(st, lookErr == nil, byNode, el.overlaps(ctx, st, byNode), time.Now())
	if answersOf(errs) < el.nodes.Majority() {
		return p, noMajority(el.nodes, errs)
	}
	return p, lookErr
}

// pastOf merges what all nodes have recorded.
func pastOf(st Status, known bool, byNode [][]registry.Entry, found map[termID][]uint64, now time.Time) past {
	events := eventsOf(byNode, st, found)
	p := past{status: st, known: known, terms: recordsOf(events, st.Leader, now), pauses: pausesOf(events, now), asked: versionsOf(events)}
	for i := range p.terms {
		p.terms[i].Overlaps = found[p.terms[i].id]
	}
	if !known && len(p.terms) > 0 && p.terms[0].Reason == ReasonVanished {
		p.terms[0].Reason, p.terms[0].MaxLasted = "", 0 // it may be the sitting leader's
	}
	return p
}

// overlaps finds the terms that overlap. That the sitting leader's does is believed only
// if it leads still: it may have been replaced while the history was read.
func (el *Election) overlaps(ctx context.Context, st Status, byNode [][]registry.Entry) map[termID][]uint64 {
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
func eventsOf(byNode [][]registry.Entry, st Status, overlap map[termID][]uint64) []Event {
	var highest uint64
	for _, n := range st.Nodes {
		highest = max(highest, n.Fence)
	}
	type word struct {
		kind EventKind
		term termID
		at   time.Time // of an operator's action, which belongs to no term
	}
	seen := map[word]bool{}
	var events []Event
	for _, entries := range byNode {
		for _, entry := range entries {
			ev, err := parseEvent(entry.Event)
			if err != nil || ev.Election != st.Election || highest > 0 && ev.Token > highest && overlap[idOf(ev)] == nil {
				continue
			}
			once := word{kind: ev.Kind, term: idOf(ev)}
			if ev.Kind.byOperator() {
				once.at = ev.Time.UTC()
			}
			if seen[once] {
				continue
			}
			seen[once] = true
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
			t = &TermRecord{Election: ev.Election, Token: ev.Token, Candidate: ev.Candidate, Advertise: ev.Advertise, id: idOf(ev)}
			terms[t.id] = t
		}
		switch ev.Kind { //nolint:exhaustive // the history holds no others
		case EventElected:
			t.From, t.vacant = ev.Time, ev.Vacant
		case EventReleased:
			t.Until, t.Reason, t.Detail, t.held = ev.Time, ev.Reason, ev.Detail, ev.Held
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
			end, _ := t.end(0) // of a leader that was suspended: of its lease
			t.Lasted = end.Sub(t.From)
		}
		records = append(records, *t)
	}
	slices.SortFunc(records, func(a, b TermRecord) int { return compareIDs(b.id, a.id) })
	for i := range records {
		r := &records[i]
		switch {
		case i == 0:
			r.bound(now, 0)
			r.MaxGap = 0 // see Vacancy
		case !records[i-1].From.IsZero() && !r.Until.IsZero():
			r.Gap = records[i-1].From.Sub(r.Until)
		case !records[i-1].From.IsZero():
			r.bound(records[i-1].From, records[i-1].vacant)
		}
	}
	return records
}

// end is when a term had ended at the earliest, and whether it is known exactly. before is
// when the next one began; zero: there is none.
func (r TermRecord) end(gap time.Duration) (end time.Time, exact bool) {
	switch {
	case !r.Until.IsZero() && r.held > 0 && !r.From.IsZero() && r.From.Add(r.held).Before(r.Until):
		return r.From.Add(r.held), true // it outlived its lease, and reported its end later
	case !r.Until.IsZero():
		return r.Until, true
	case gap > 0 && r.MaxLasted > gap:
		return r.From.Add(r.MaxLasted - gap), false
	default:
		return r.From, false
	}
}

// bound sets the bounds of a term whose end was not reported, from when the next one began
// and what its leader had seen.
func (r *TermRecord) bound(next time.Time, vacant time.Duration) {
	if r.Reason != ReasonVanished || r.From.IsZero() {
		return
	}
	r.MaxLasted = max(0, next.Sub(r.From))
	r.MaxGap = r.MaxLasted
	if vacant > 0 && (vacant < r.MaxGap || r.MaxGap == 0) { // 0: the clocks of two hosts contradict each other
		r.MaxGap = vacant
	}
}
