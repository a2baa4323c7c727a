package elector

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
	"github.com/mandate-dev/mandate/elector/internal/registry"
)

// CordonRecord is a cordon as operators reported it, by their hosts' clocks. Like everything in the
// history it is a hint, except for Current.
type CordonRecord struct {
	ID        string    `json:"id"`           // of the candidate, or the name of a host
	By        string    `json:"by,omitempty"` // who cordoned it; empty: a program that named no one
	Reason    string    `json:"reason,omitempty"`
	Drain     bool      `json:"drain"` // the candidate also had to hand over what it led
	From      time.Time `json:"from,omitzero"`
	Until     time.Time `json:"until,omitzero"`     // zero: it is in force, or its end was not recorded
	Current   bool      `json:"current"`            // it is in force now: by the nodes, or by the history if they can't be read
	EndedBy   string    `json:"ended_by,omitempty"` // who uncordoned it, or cordoned it anew
	EndReason string    `json:"end_reason,omitempty"`
}

// at returns the record's place in a time line: its begin, or its end if the begin was trimmed or
// not recorded.
func (r CordonRecord) at() time.Time {
	if r.From.IsZero() {
		return r.Until
	}
	return r.From
}

// cordonsSince returns the cordons that had not ended before a moment, as far as that is known.
func cordonsSince(all []CordonRecord, since time.Time) []CordonRecord {
	return slices.DeleteFunc(slices.Clone(all), func(r CordonRecord) bool {
		return !r.Current && !r.Until.After(since) && !r.From.After(since)
	})
}

// parseCordonEvent reads an entry of the history of cordons. It clips the texts: any user that may
// write there may have written them.
func parseCordonEvent(s string) (ev Event, ok bool) {
	ev, err := decodeEvent(s)
	if err != nil || !ev.Kind.cordons() || ev.Time.IsZero() || protocol.CheckWord("", ev.Candidate, protocol.MaxName, "") != nil {
		return Event{}, false
	}
	ev.By, ev.Detail = protocol.Clip(ev.By, protocol.MaxReason), protocol.Clip(ev.Detail, protocol.MaxReason)
	ev.Time = ev.Time.UTC()
	return ev, true
}

// cordonEventsOf returns the events in the entries of all nodes, each once, in the order of time. It
// skips entries that are no such events, or that a later version wrote.
func cordonEventsOf(byNode [][]registry.Entry) (events []Event) {
	type report struct {
		kind EventKind
		id   string
		at   time.Time
	}
	seen := map[report]bool{}
	for _, entries := range byNode {
		for _, entry := range slices.Backward(entries) { // oldest first
			ev, ok := parseCordonEvent(entry.Event)
			if once := (report{ev.Kind, ev.Candidate, ev.Time}); ok && !seen[once] {
				seen[once] = true
				events = append(events, ev)
			}
		}
	}
	slices.SortStableFunc(events, func(a, b Event) int { return a.Time.Compare(b.Time) })
	return events
}

// cordonRecordsOf turns operators' reports into cordons, newest first. A cordon ends when its
// candidate is uncordoned, or when another cordon takes its place. known: the nodes could be read,
// and inForce holds the cordons that are in force. The nodes then decide, not the reports: a report
// may be missing for lack of a right or of memory.
func cordonRecordsOf(events []Event, inForce []Cordon, known bool) []CordonRecord {
	var all []CordonRecord
	open := map[string]int{} // by id: the index of the cordon that has not ended
	end := func(id string, at time.Time, by, why string) bool {
		i, is := open[id]
		if is {
			all[i].Until, all[i].EndedBy, all[i].EndReason = at, by, why
			delete(open, id)
		}
		return is
	}
	for _, ev := range events {
		if ev.Kind == eventUncordoned {
			if !end(ev.Candidate, ev.Time, ev.By, ev.Detail) {
				all = append(all, CordonRecord{ID: ev.Candidate, Until: ev.Time, EndedBy: ev.By, EndReason: ev.Detail})
			}
			continue
		}
		end(ev.Candidate, ev.Time, ev.By, "")
		open[ev.Candidate] = len(all)
		all = append(all, CordonRecord{ID: ev.Candidate, By: ev.By, Reason: ev.Detail, Drain: ev.Kind == eventDrained, From: ev.Time})
	}
	if !known {
		for _, i := range open {
			all[i].Current = true
		}
	}
	for _, c := range inForce {
		if i, is := open[c.ID]; is && all[i].From.Equal(c.Since) {
			all[i].Current = true
			continue
		}
		if i, is := open[c.ID]; is && c.Since.After(all[i].From) {
			end(c.ID, c.Since, c.By, "")
		}
		all = append(all, CordonRecord{ID: c.ID, By: c.By, Reason: c.Reason, Drain: c.Drain, From: c.Since.UTC(), Current: true})
	}
	slices.SortStableFunc(all, func(a, b CordonRecord) int { return b.at().Compare(a.at()) })
	return all
}

// cordonHistory reads the cordons under a prefix, newest first. Its error names what is missing, and
// matches no other error of this package: a time line is useful without the cordons.
func cordonHistory(ctx context.Context, nodes *quorum.Nodes, prefix string) ([]CordonRecord, error) {
	keys := protocol.KeysOfCordons(prefix)
	var inForce []Cordon
	var forceErr error
	var reading sync.WaitGroup
	reading.Go(func() { inForce, forceErr = cordonsOn(ctx, nodes, prefix) })
	byNode, errs := registry.RecallMajority(ctx, nodes, keys, protocol.WholeHistory, statusTimeout)
	reading.Wait()

	all := cordonRecordsOf(cordonEventsOf(byNode), inForce, forceErr == nil)
	var failed *QuorumError
	switch {
	case answersOf(errs) < nodes.Majority():
		return all, &QuorumError{Problem: "the history of the cordons, " + keys.History + ", could not be read", Nodes: nodeErrors(errs)}
	case errors.As(forceErr, &failed):
		return all, &QuorumError{Problem: "it is not known which cordons are in force, " + protocol.CordonsKey(prefix) + " could not be read", Nodes: failed.Nodes}
	default:
		return all, forceErr
	}
}
