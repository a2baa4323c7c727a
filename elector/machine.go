package elector

import (
	"context"
	"log/slog"
	"math"
	"time"
)

// Role is what a candidate does in its election right now.
type Role string

// The roles, in the order of a life. become is the only way from one to
// another.
const (
	RoleIdle      Role = "idle"      // not a candidate: Run and Campaign are not running
	RoleFollowing Role = "following" // campaigning, or waiting while another leads
	RoleLeading   Role = "leading"   // serving a term
	RoleStopping  Role = "stopping"  // the term has ended, its work has not returned yet
	RoleResting   Role = "resting"   // cooling down before the next campaign
)

// leadsTo lists the transitions that exist.
var leadsTo = map[Role][]Role{
	RoleIdle:      {RoleFollowing},
	RoleFollowing: {RoleLeading, RoleIdle},
	RoleLeading:   {RoleStopping},
	RoleStopping:  {RoleResting, RoleFollowing, RoleIdle},
	RoleResting:   {RoleFollowing, RoleIdle},
}

// become is the one setter of the state. It logs the change and tells the
// observers; it never blocks.
func (e *Elector) become(s Role, ev *Event, attrs ...slog.Attr) {
	e.mu.Lock()
	old := e.state
	allowed := old == s
	for _, next := range leadsTo[old] {
		allowed = allowed || next == s
	}
	if !allowed {
		e.mu.Unlock()
		panic("elector: from " + string(old) + " to " + string(s)) // a bug of ours
	}
	e.state = s
	e.mu.Unlock()
	e.cards.poke()
	if old != s {
		e.log.LogAttrs(context.Background(), slog.LevelInfo, string(s), attrs...) //nolint:sloglint // one of the five constants above
	}
	if ev != nil {
		e.feed.publish(*ev)
	}
}

// run is the machine: campaign, lead, rest, and again.
func (e *Elector) run(ctx context.Context, work Work) error {
	trips := 0
	for {
		term, err := e.campaign(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil //nolint:nilerr // shutdown is how Run ends well
			}
			return err
		}
		e.owed = nil // what it holds still this term has taken over
		ended := e.startTerm(ctx, term, work).lead()
		close(term.over)
		switch {
		case ended.Reason == ReasonFailed || ended.Reason == ReasonPanicked:
			return ended.Err
		case ctx.Err() != nil:
			return term.unreleased // shutdown is how Run ends well
		}
		trips = e.tripped(trips, ended.Reason, time.Since(term.since))
		if d := e.restAfter(ended.Reason, trips); d > 0 {
			e.become(RoleResting, nil, slog.Duration("for", d))
			e.rest(ctx, d)
		}
	}
}

// tripped counts the terms in a row that ended as unhealthy. A good term in between
// makes the next trip the first one again.
func (e *Elector) tripped(trips int, r Reason, led time.Duration) int {
	switch {
	case r != ReasonUnhealthy:
		return 0
	case led > 4*e.cfg.Lease:
		return 1
	default:
		return trips + 1
	}
}

// restAfter is the pause before the next campaign.
func (e *Elector) restAfter(r Reason, trips int) time.Duration {
	switch r {
	case ReasonUnhealthy:
		return min(e.cfg.Cooldown, math.MaxInt64>>4) << min(trips-1, 4)
	case ReasonResigned, ReasonHandover:
		return e.cfg.Cooldown
	case ReasonFinished:
		return e.cfg.RestartDelay
	default: // nothing of ours was wrong: run again at once
		return 0
	}
}
