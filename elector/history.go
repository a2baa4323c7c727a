package elector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// TermRecord is one term as the history tells it: by the words of its leader,
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
	// end later overlaps with nobody. A term overlaps with the sitting leader's also when it
	// began more than 1 s after that one, which has held a majority of the locks since.
	// What can't be seen: terms of which no node received both reports, those whose earlier
	// leader vanished, and those of versions that did not report for how long they led.
	Overlaps []uint64 `json:"overlaps,omitempty"`

	// Lasted is how long the term lasted, or has lasted. Gap is the time from its
	// end to the begin of the next term; two machines' clocks are compared, so it
	// can even be negative. Zero: not known.
	Lasted time.Duration `json:"lasted_ns,omitempty"`
	Gap    time.Duration `json:"gap_ns,omitempty"`

	id termID
}

// mostRecords is what the history of an election holds at most: about 1000
// events, two for a term.
const mostRecords = 500

// History tells the last n terms of an election (at most 500), newest first,
// merged from all nodes. It asks twice, and waits for each of them at most 1.5 s
// each time (or until ctx ends). An empty prefix means "mandate". The error is ErrUnreachable, with each
// node's trouble, when no majority told its history, or who leads; what the others
// told is returned with it. While it is not known who leads, the newest term of
// which no end was reported is neither Current nor vanished: it has no Reason.
func (q *Quorum) History(ctx context.Context, prefix, election string, n int) ([]TermRecord, error) {
	n = min(max(n, 1), mostRecords)
	s, err := q.steering(prefix, election)
	if err != nil {
		return nil, err
	}
	return s.history(ctx, n)
}

func (s *steering) history(ctx context.Context, n int) ([]TermRecord, error) {
	q, election := s.q, s.election
	st, lookErr := q.look(ctx, s.keys, election)
	// One term more than asked for, and the end of a still older one: the first
	// entries that are cut off must not make a term look like one that vanished.
	told, errs := q.nodes.Recall(ctx, s.keys, int64(2*n+2), statusTimeout)
	found := s.overlaps(ctx, st, told)
	records := recordsOf(eventsOf(told, st, found), st.Leader, time.Now())
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
	if answers < q.nodes.Majority() {
		return records, q.noMajority(errs)
	}
	return records, lookErr
}

// overlaps finds the terms that overlap. That the sitting leader's does is believed only
// if it leads still: it may have been replaced while the history was read.
func (s *steering) overlaps(ctx context.Context, st Status, told [][]quorum.Entry) map[termID][]uint64 {
	received, released := receiptsOf(told, st.Election)
	holder := holderOf(received, released, st.Leader)
	found := overlaps(released, received, holder)
	if holder == nil || len(found[*holder]) == 0 {
		return found
	}
	again, err := s.q.look(ctx, s.keys, s.election)
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

const defaultPrefix = "mandate"

// eventsOf merges what the nodes told. What no counter of Redis allows was
// forged, or is left from before the counters were lost; or it is of a leader with
// other nodes, whose term then is among those that overlap.
func eventsOf(told [][]quorum.Entry, st Status, overlap map[termID][]uint64) []Event {
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
	for _, entries := range told {
		for _, entry := range entries {
			ev, err := ParseEvent(entry.Event)
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

// mostElections bounds what Elections returns.
const mostElections = 10_000

// Elections lists the elections of a prefix, also those that nobody takes part
// in any more: Redis keeps their counters. It looks at every key of every node
// (SCAN; with Cluster, of every master), for at most 1.5 s or until ctx ends,
// and stops at 10,000. An empty prefix means "mandate".
//
// The error is ErrUnreachable when no majority of the nodes could be read and
// nothing was found; any other one says why something may be missing from what
// is returned with it.
func (q *Quorum) Elections(ctx context.Context, prefix string) ([]string, error) {
	prefix = cmp.Or(prefix, defaultPrefix)
	if err := checkWord("the prefix", prefix, maxName, "{}"); err != nil {
		return nil, fmt.Errorf("elector: %w", err)
	}
	names, errs := q.nodes.Elections(ctx, prefix, mostElections, statusTimeout)
	err := errors.Join(errs...)
	if err == nil {
		return names, nil
	}
	answers := 0
	for _, e := range errs {
		if e == nil {
			answers++
		}
	}
	if answers < q.nodes.Majority() && len(names) == 0 {
		return nil, q.noMajority(errs)
	}
	return names, fmt.Errorf("elector: the list may be incomplete: %w", err)
}

// Election is the name of the election that this candidate takes part in.
func (e *Elector) Election() string { return e.cfg.Election }

// Advertise is where this candidate can be reached when it leads, as configured.
func (e *Elector) Advertise() string { return e.cfg.Advertise }

// Lease is the lease that this candidate uses.
func (e *Elector) Lease() time.Duration { return e.cfg.Lease }

// Status is Quorum.Status of this candidate's election.
func (e *Elector) Status(ctx context.Context) (Status, error) {
	return e.quorum.Status(ctx, e.cfg.Prefix, e.cfg.Election)
}

// History is Quorum.History of this candidate's election.
func (e *Elector) History(ctx context.Context, n int) ([]TermRecord, error) {
	return e.quorum.History(ctx, e.cfg.Prefix, e.cfg.Election, n)
}

// Candidates is Quorum.Candidates of this candidate's election.
func (e *Elector) Candidates(ctx context.Context) ([]CandidateStatus, error) {
	return e.quorum.Candidates(ctx, e.cfg.Prefix, e.cfg.Election)
}

// Transfer is Quorum.Transfer of this candidate's election: whoever leads is
// asked to hand over.
func (e *Elector) Transfer(ctx context.Context, to string) (Handover, error) {
	return e.quorum.Transfer(ctx, e.cfg.Prefix, e.cfg.Election, to)
}
