package elector

import (
	"context"
	"slices"
	"time"
)

// ownEvents reports what the candidate of this process has done; false when the loop
// has ended.
func (o *observer) ownEvents(ctx context.Context) bool {
	if o.local == nil {
		return true
	}
	events, skipped := o.el.own.events.take(o.local)
	if skipped > 0 {
		o.inbox.signal() // how the term ended that was reported last may be among them: Redis shows it
		if !o.emit(ctx, Event{Version: eventVersion, Kind: EventSkipped, Count: skipped, Time: time.Now().Round(0)}) {
			return false
		}
	}
	for _, ev := range events {
		switch ev.Kind { //nolint:exhaustive // the others do not change who leads
		case EventElected:
			o.changes++
			if !o.ownElection(ctx, ev) {
				return false
			}
			continue
		case EventReleased:
			o.changes++
			if ev.Token != o.reported.term.Token || o.reported.ending != open {
				continue // its end was reported
			}
			o.reported.ending = closed
		case EventAddress:
			o.changes++
			if ev.Token != o.reported.term.Token || o.reported.ending != open || ev.Advertise == o.reported.term.Advertise {
				continue // it was reported, or the term's end was
			}
			o.reported.term.Advertise = ev.Advertise
		}
		if !o.emit(ctx, ev) {
			return false
		}
	}
	return true
}

// ownElection reports that this candidate leads: Redis granted it. How the term
// before it ended takes a little longer to arrive, and is reported first.
func (o *observer) ownElection(ctx context.Context, ev Event) bool {
	r := reading{highest: ev.Token, leader: &Leader{
		Candidate: ev.Candidate, Incarnation: ev.Incarnation, Advertise: ev.Advertise, Token: ev.Token, agreed: true, placed: true,
	}}
	if was := o.reported; was.begun {
		r.history = o.el.recent(ctx, waitForOldEnd)
	}
	for {
		events, is, wait := o.reported.merge(r, slices.Concat([]Event{ev}, o.inbox.waiting()), time.Now())
		o.reported = is
		for _, ev := range events {
			if !o.emit(ctx, ev) {
				return false
			}
		}
		if wait == 0 {
			return true
		}
		limit := time.NewTimer(wait)
		select {
		case <-o.inbox.arrived:
		case <-limit.C:
		case <-ctx.Done():
		}
		limit.Stop()
		if ctx.Err() != nil {
			return false
		}
	}
}
