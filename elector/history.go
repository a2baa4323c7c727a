package elector

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/registry"
)

// TermRecord is one term in the history: as its leader reported it, and by the
// leader's clock. Like everything in the history it is a hint.
type TermRecord struct {
	Election  string    `json:"election"`
	Token     uint64    `json:"token"`
	Candidate string    `json:"candidate"`
	Advertise string    `json:"advertise,omitempty"`
	From      time.Time `json:"from,omitzero"`  // zero: trimmed from the history
	Until     time.Time `json:"until,omitzero"` // zero: the candidate still leads or vanished, or that is not known
	Current   bool      `json:"current"`        // the candidate still leads
	Reason    Reason    `json:"reason,omitempty"`
	Detail    string    `json:"detail,omitempty"` // the reason in words

	// Overlaps are the tokens of other terms that were valid at the same time as this one, for
	// more than 1 s: two candidates led at once. That must never happen; candidates with different
	// lists of nodes are the likely cause.
	//
	// An overlap follows from when a node received the reports of both terms, by the node's clock,
	// and from how long the earlier term was valid, as its leader reported. So a term overlaps
	// with none if its leader was paused, or its work outran the lease, and the leader reported
	// the end later. A term that began more than 1 s after the sitting leader's overlaps with it,
	// because the sitting leader has held a majority of the locks since.
	//
	// Not noticed are overlaps of terms of which no node received both reports, of terms whose
	// earlier leader vanished, and of versions that did not report for how long they led.
	Overlaps []uint64 `json:"overlaps,omitempty"`

	// Lasted is how long the term lasted, or has lasted so far. The term of a leader that was
	// suspended and reported its end later lasted until its lease ended. Gap is the time from the
	// end of the term to the begin of the next one. It compares the clocks of two machines, so it
	// can even be negative. Zero: not known.
	Lasted time.Duration `json:"-"`
	Gap    time.Duration `json:"-"`

	// MaxLasted and MaxGap are upper bounds for a leader that vanished: how long it led, and how
	// long there was then no leader until the next term began. MaxGap counts from the renewal of
	// the lease that the next leader saw last, or else from the begin of this term. Zero: known
	// exactly, or not at all.
	MaxLasted time.Duration `json:"-"`
	MaxGap    time.Duration `json:"-"`

	id     termID
	held   time.Duration // for how long the lease covered the work; zero: not known
	vacant time.Duration // for how long at most there was no leader before this term; zero: not known
}

// Began returns when the term began, or when it ended if the begin was trimmed. It is the term's
// place in a time line.
func (r TermRecord) Began() time.Time { return cmp.Or(r.From, r.Until) }

// maxRecords is how many terms the history of an election holds at most: about 1000
// events, two per term.
const maxRecords = 500

// History returns the last n terms of the election, newest first, merged from all nodes. n is
// limited to 1 to 500. History queries each node twice, a third time where many pauses are newer
// than these terms, and once more where a term seems to overlap with the sitting leader's. It waits
// for each node at most 1.5 s each time (or until ctx ends).
//
// The error is ErrUnreachable, with each node's NodeError, when no majority returned its history,
// or who leads; History then returns what the other nodes have. While it is not known who leads,
// the newest term without a reported end is neither Current nor vanished: it has no Reason.
func (el *Election) History(ctx context.Context, n int) ([]TermRecord, error) {
	if err := checkOpen(el.nodes); err != nil {
		return nil, err
	}
	n = min(max(n, 1), maxRecords)
	past, err := el.past(ctx, entriesOf(n), n, time.Time{})
	return past.terms[:min(n, len(past.terms))], err
}

// entriesOf returns how many entries of a history stream to read for n terms: those of n+1 terms,
// and the end of a still older one. The entries that are cut off must not make a leader look as if
// it had vanished.
func entriesOf(n int) int { return 2*n + 2 }

// past is what the history of an election and its nodes show.
type past struct {
	status Status
	known  bool // it is known who leads
	terms  []TermRecord
	pauses []PauseRecord
}

// covers reports whether enough was read: the last n terms with their begins, or, unless since is
// zero, all terms since then and the one before. It may not be enough, because any number of
// pauses stands in the same stream as the terms.
func (p past) covers(n int, since time.Time) bool {
	if len(p.terms) >= n && !slices.ContainsFunc(p.terms[:n], func(r TermRecord) bool { return r.From.IsZero() }) {
		return true
	}
	return !since.IsZero() && slices.ContainsFunc(p.terms, func(r TermRecord) bool { return r.Began().Before(since) })
}

// past reads up to that many entries of each node's history, and all of them if these cover
// neither the last n terms nor those since a moment.
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

// pastOf merges what all nodes have recorded. known: it is known who leads. found holds the
// overlapping terms.
func pastOf(st Status, known bool, byNode [][]registry.Entry, found map[termID][]uint64, now time.Time) past {
	events := eventsOf(byNode, st, found)
	p := past{status: st, known: known, terms: recordsOf(events, st.Leader, now), pauses: pausesOf(events, now)}
	for i := range p.terms {
		p.terms[i].Overlaps = found[p.terms[i].id]
	}
	if !known && len(p.terms) > 0 && p.terms[0].Reason == ReasonVanished {
		p.terms[0].Reason, p.terms[0].MaxLasted = "", 0 // the term may be the sitting leader's
	}
	return p
}

// overlaps finds the terms that overlap. Overlaps with the sitting leader's term count only if that
// leader still leads: another one may have replaced it while the history was read.
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

// holderOf returns the sitting leader's term, or nil when no node received the report of its begin.
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

// eventsOf merges the nodes' entries, each event once. It skips events with a token above every
// counter: they were forged, or are left from before the counters were lost. But it keeps those of
// terms that overlap: their leaders may vote with other nodes.
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

// recordsOf turns events into terms, newest first.
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
			t.Advertise = cmp.Or(ev.Advertise, t.Advertise) // the leader's last address
		}
	}
	records := make([]TermRecord, 0, len(terms))
	for _, t := range terms {
		if t.From.IsZero() && t.Until.IsZero() {
			continue // an operator's actions, or events of a later version
		}
		t.Current = leader != nil && t.Until.IsZero() && t.id.leads(leader)
		switch {
		case t.Current:
			t.Lasted = now.Sub(t.From)
		case t.Until.IsZero():
			t.Reason = ReasonVanished
		case !t.From.IsZero():
			end, _ := t.end(0) // of the lease, if the leader was suspended
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

// end returns when a term had ended at the earliest, and whether that is exact. gap is the upper
// bound of the time without a leader after it; 0: not known.
func (r TermRecord) end(gap time.Duration) (end time.Time, exact bool) {
	switch {
	case !r.Until.IsZero() && r.held > 0 && !r.From.IsZero() && r.From.Add(r.held).Before(r.Until):
		return r.From.Add(r.held), true // the leader outlived its lease, and reported the end later
	case !r.Until.IsZero():
		return r.Until, true
	case gap > 0 && r.MaxLasted > gap:
		return r.From.Add(r.MaxLasted - gap), false
	default:
		return r.From, false
	}
}

// bound sets MaxLasted and MaxGap of a term whose end was not reported. next is when the next term
// began, and vacant for how long at most there was no leader, as the next leader had seen it.
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
