package elector

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// run is the life of a candidate: campaign, lead, rest, and again.
//
// Candidates wait below this, in campaign and lead, and of ten thousand nearly all do. So what
// needs room for a moment is in functions that have returned by then: a stack that a frame
// on the way has made twice as large stays so.
func (m *machine) run(ctx context.Context, work Work) error {
	if m.cfg.Observer {
		return m.observeOnly(ctx)
	}
	for {
		l, err := m.elected(ctx, work)
		if l == nil {
			return err
		}
		if over, err := m.after(ctx, l.term, l.lead()); over {
			return err
		}
	}
}

// elected campaigns, and starts the term that was won. It returns nil when Run is over.
func (m *machine) elected(ctx context.Context, work Work) (*leadership, error) {
	term, err := m.campaign(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil, nil //nolint:nilerr,nilnil // shutdown is how Run ends well
		}
		return nil, err
	}
	m.pendingRelease = nil // what it holds still this term has taken over
	return m.startTerm(ctx, term, work), nil
}

// after rests after a term where that is due, or reports that Run is over, and with which error.
func (m *machine) after(ctx context.Context, term *Term, ended *Ended) (over bool, err error) {
	close(term.over)
	reason := ended.Reason // as far as it decides how the candidate goes on
	if reason == ReasonFailed && restarts(ended.Err) {
		reason = ReasonFinished
	}
	switch {
	case reason == ReasonPanicked, reason == ReasonFailed && !m.cfg.RetryFailed:
		return true, ended.Err
	case ctx.Err() != nil:
		return true, term.unreleased // shutdown is how Run ends well
	}
	m.trips = tripped(m.trips, reason, time.Since(term.since), m.cfg.Lease)
	if d := m.cfg.restAfter(reason, m.trips); d > 0 {
		m.rest(ctx, d, ended)
	}
	return false, nil
}

// runError is what Run returns when run has returned err.
func (m *machine) runError(ctx context.Context, err error) error {
	if err == nil {
		err = m.awaitPendingRelease()
	}
	if errors.Is(context.Cause(ctx), ErrClosed) && !errors.Is(err, ErrClosed) {
		return errors.Join(ErrClosed, err)
	}
	return err
}

// tripped counts the terms in a row that ended as unhealthy or failed. A good term in
// between makes the next trip the first one again.
func tripped(trips int, r Reason, led, life time.Duration) int {
	switch {
	case r != ReasonUnhealthy && r != ReasonFailed:
		return 0
	case led > 4*life:
		return 1
	default:
		return trips + 1
	}
}

// restAfter is the pause before the next campaign.
func (c *Config) restAfter(r Reason, trips int) time.Duration {
	switch r {
	case ReasonUnhealthy, ReasonFailed:
		return c.Cooldown << min(trips-1, 4)
	case ReasonResigned, ReasonHandover:
		return c.Cooldown
	case ReasonFinished:
		return c.RestartDelay
	default: // nothing of ours was wrong: run again at once
		return 0
	}
}

// rest waits for d after a term, or until ctx ends, and looks at the election meanwhile.
func (m *machine) rest(ctx context.Context, d time.Duration, after *Ended) {
	m.mu.Lock()
	m.rested, m.restWhy = time.Now().Add(d), after.summary()
	m.mu.Unlock()
	m.become(RoleResting, nil, slog.String("for", unit(d)))
	look := m.newPoller()
	defer look.close()
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case <-look.due.C:
			look.start()
		case views := <-look.views:
			look.take(views)
		}
	}
}

// awaitPendingRelease waits for a release that is still repeated in the background, at Run's end.
// One that failed before is no news: its lock has lapsed, which was logged, and others
// may have led since.
func (m *machine) awaitPendingRelease() error {
	owed := m.pendingRelease
	m.pendingRelease = nil
	if owed == nil || len(owed) > 0 {
		return nil
	}
	return <-owed
}

// campaigns is nil, or why this candidate never does.
func (c *candidate) campaigns() error {
	if c.cfg.Observer {
		return failed(ErrNotLeader, "not the leader: this candidate is an observer (Config.Observer), which never campaigns")
	}
	return nil
}
