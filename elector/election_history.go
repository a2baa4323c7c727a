package elector

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// TermRecord is one term in the history: as its leader reported it, and by the
// leader's clock. Like everything in the history it is a hint.
type TermRecord struct {
	Election  string    `json:"election"`
	Token     uint64    `json:"token"`               // of the term
	Candidate string    `json:"candidate"`           // who led
	Advertise string    `json:"advertise,omitempty"` // where it could be reached
	From      time.Time `json:"from,omitzero"`       // zero: trimmed from the history
	Until     time.Time `json:"until,omitzero"`      // zero: the candidate still leads or vanished, or that is not known
	Current   bool      `json:"current"`             // the candidate still leads
	Reason    Reason    `json:"reason,omitempty"`    // why it ended, see docs/runbook.md
	Detail    string    `json:"detail,omitempty"`    // the reason in words

	// Lasted is how long the term lasted, or has lasted so far. The term of a leader that was
	// suspended and reported its end later lasted until its lease ended. Gap is the time from the
	// end of the term to the begin of the next one. It compares the clocks of two machines, so it
	// can even be negative. Zero: not known.
	Lasted time.Duration `json:"-" ms:"lasted_ms,omitempty"`
	Gap    time.Duration `json:"-" ms:"gap_ms,omitempty"`

	id   termID
	held time.Duration // for how long the lease covered the work; zero: not known
}

// maxRecords is how many terms the history of an election holds at most: about 1000
// events, two per term.
const maxRecords = 500

// termID identifies a term. The token is not enough: candidates with different lists of nodes
// can be granted the same one.
type termID struct {
	token                  uint64
	candidate, incarnation string
}

func idOf(ev Event) termID { return termID{ev.Token, ev.Candidate, ev.Incarnation} }

// leads reports whether this is the leader's term.
func (id termID) leads(l *Leader) bool {
	candidate := l.Candidate == "" || id.candidate == l.Candidate
	return candidate && id.token == l.Token && sameLife(id.incarnation, l.Incarnation)
}

func compareIDs(a, b termID) int {
	return cmp.Or(cmp.Compare(a.token, b.token), cmp.Compare(a.candidate, b.candidate), cmp.Compare(a.incarnation, b.incarnation))
}

// History returns the last n terms of the election, newest first, merged from all nodes. n is
// limited to 1 to 500. History queries each node once, and again where many pauses are newer
// than these terms. It waits for each node at most 1.5 s each time (or until ctx ends).
//
// The error is ErrUnreachable, with each node's NodeError, when no majority returned its history,
// or who leads; History then returns what the other nodes have. While it is not known who leads,
// the newest term without a reported end is neither Current nor vanished: it has no Reason.
func (el *Election) History(ctx context.Context, n int) ([]TermRecord, error) {
	n = min(max(n, 1), maxRecords)
	st, err := el.read(ctx, entriesOf(n), false)
	return el.terms(ctx, n, st, err)
}

// entriesOf returns how many entries of the history are read for n terms: those of n+1 terms, and the end of a still
// older one. Those that are cut off must not make a leader look as if it had vanished.
func entriesOf(n int) int {
	switch {
	case n < 1:
		return 0
	case n >= maxRecords:
		return protocol.WholeHistory
	default:
		return 2*n + 2
	}
}

// terms returns what a look with entriesOf(n) entries shows of n terms.
func (el *Election) terms(ctx context.Context, n int, st Status, lookErr error) ([]TermRecord, error) {
	if err := checkOpen(el.nodes); err != nil {
		return nil, err
	}
	terms, cut := st.terms(lookErr, entriesOf(n))
	if cut && !cover(terms, n) {
		if all, err := el.read(ctx, protocol.WholeHistory, false); err == nil {
			st, lookErr = all, nil
			terms, cut = st.terms(nil, protocol.MaxEntries)
		}
	}
	_, errs := st.past()
	if len(terms) > 0 && !cut && answersOf(errs) == el.nodes.Len() {
		terms[len(terms)-1].noteLoss()
	}
	terms = terms[:min(n, len(terms))]
	if answersOf(errs) < el.nodes.Majority() {
		return terms, noMajority(el.nodes.Len(), errs)
	}
	return terms, lookErr
}

// noteLoss gives the oldest term of all, if its leader did not end it, the reason that the nodes lost their data
// during it, if none of them has kept its begin. (Nor anything older: else that could just have failed to arrive.)
func (r *TermRecord) noteLoss() {
	unkept := r.From.IsZero() && r.held > 0 && r.held < protocol.KeptFor
	if unkept && (r.Reason == ReasonLost || r.Reason == ReasonExpired) {
		r.Reason = ReasonDataLost
	}
}

// cover reports whether enough was read: the last n terms with their begins. It may not be enough,
// because any number of pauses stands in the same stream as the terms.
func cover(terms []TermRecord, n int) bool {
	return len(terms) >= n && !slices.ContainsFunc(terms[:n], func(r TermRecord) bool { return r.From.IsZero() })
}

// pauses merges the pauses that all nodes have recorded.
func (st Status) pauses() []PauseRecord {
	byNode, _ := st.past()
	return pausesOf(eventsOf(byNode, st), time.Now())
}

// past returns what the nodes have of the history, and their errors.
func (st Status) past() (byNode [][]string, errs []error) {
	for _, n := range st.Nodes {
		byNode, errs = append(byNode, n.past), append(errs, n.pastErr)
	}
	return byNode, errs
}

// terms merges the terms that all nodes have recorded. cut: one of them has so many entries that others were cut off.
func (st Status) terms(lookErr error, entries int) (terms []TermRecord, cut bool) {
	byNode, _ := st.past()
	terms = recordsOf(eventsOf(byNode, st), st.Leader, time.Now())
	if (lookErr != nil || st.MayLead != nil) && len(terms) > 0 && terms[0].Until.IsZero() {
		terms[0].Reason, terms[0].Detail = "", "" // the term may be the sitting leader's
	}
	return terms, slices.ContainsFunc(byNode, func(node []string) bool { return len(node) >= entries })
}

// eventsOf merges the nodes' entries, each event once. It skips events with a token above every
// counter that is known: they were forged, or are left from before the counters were lost.
func eventsOf(byNode [][]string, st Status) []Event {
	highest := st.highest()
	type word struct {
		kind string
		term termID
		at   time.Time // of an operator's action, which belongs to no term
	}
	seen := map[word]bool{}
	var events []Event
	for _, entries := range byNode {
		for _, entry := range entries {
			ev, ok := parseEvent(entry)
			if !ok || ev.Election != st.Election || highest > 0 && ev.Token > highest {
				continue
			}
			once := word{kind: ev.Kind, term: idOf(ev)}
			if ev.byOperator() {
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
	terms, stopping := map[termID]*TermRecord{}, map[termID]Event{}
	for _, ev := range events {
		t := terms[idOf(ev)]
		if t == nil {
			t = &TermRecord{Election: ev.Election, Token: ev.Token, Candidate: ev.Candidate, Advertise: ev.Advertise, id: idOf(ev)}
			terms[t.id] = t
		}
		switch ev.Kind { // the history holds no others of a term
		case EventElected:
			t.From = ev.Time
		case EventReleased:
			t.Until, t.Reason, t.Detail, t.held = ev.Time, ev.Reason, ev.Detail, ev.Held
		case EventStopping:
			stopping[t.id] = ev
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
			if ev, was := stopping[t.id]; was {
				t.Reason, t.Detail = ev.Reason, strings.TrimPrefix(ev.Detail+"; ", "; ")+"its process was gone before its work had stopped"
			}
		case !t.From.IsZero():
			t.Lasted = t.end().Sub(t.From)
		}
		records = append(records, *t)
	}
	slices.SortFunc(records, func(a, b TermRecord) int { return compareIDs(b.id, a.id) })
	for i := range records[min(1, len(records)):] {
		if next, r := records[i], &records[i+1]; !next.From.IsZero() && !r.Until.IsZero() {
			r.Gap = next.From.Sub(r.end())
		}
	}
	return records
}

// end returns when a term had ended whose end was reported.
func (r TermRecord) end() time.Time {
	if end := r.From.Add(r.held); r.held > 0 && !r.From.IsZero() && end.Before(r.Until) {
		return end // the leader outlived its lease, and reported the end later
	}
	return r.Until
}

// PauseRecord is a pause as operators reported it, by their hosts' clocks.
type PauseRecord struct {
	Election string        `json:"election"`
	By       string        `json:"by,omitempty"`            // who paused it; empty: a program that named no one
	Reason   string        `json:"reason,omitempty"`        // as the operator gave it
	From     time.Time     `json:"from"`                    // when it began
	Until    time.Time     `json:"until,omitzero"`          // zero: it is still in force
	EndedBy  string        `json:"ended_by,omitempty"`      // who resumed it, or paused it anew
	For      time.Duration `json:"-" ms:"for_ms,omitempty"` // after which it ends automatically; 0: never
}

// pausesOf turns operators' reports into pauses, newest first. A pause ends when an operator
// resumes the election, when its time has passed, or when another pause takes its place.
func pausesOf(events []Event, now time.Time) (pauses []PauseRecord) {
	actions := slices.DeleteFunc(events, func(ev Event) bool { return !ev.byOperator() })
	slices.SortStableFunc(actions, func(a, b Event) int { return a.Time.Compare(b.Time) })
	for _, ev := range actions {
		if i := len(pauses) - 1; i >= 0 {
			if last := &pauses[i]; last.Until.IsZero() || last.Until.After(ev.Time) {
				last.Until, last.EndedBy = ev.Time, ev.By
			}
		}
		if ev.Kind == eventResumed {
			continue
		}
		p := PauseRecord{Election: ev.Election, By: ev.By, Reason: ev.Detail, From: ev.Time, For: max(0, ev.For)}
		if end := p.From.Add(p.For); p.For > 0 && !end.After(now) {
			p.Until = end
		}
		pauses = append(pauses, p)
	}
	slices.Reverse(pauses)
	return pauses
}
