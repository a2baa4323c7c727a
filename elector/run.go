package elector

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// run campaigns, leads and rests in a loop, until ctx ends or an error ends the candidacy.
//
// A candidate spends nearly all its time blocked in campaign or lead, and a process may have ten
// thousand candidates. So code that needs much stack for a moment is in functions that have returned
// by then: a large frame below the wait could double the stack of each of these goroutines.
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

// elected campaigns, and starts the term that it wins. It returns nil when Run is over.
func (m *machine) elected(ctx context.Context, work Work) (*leadership, error) {
	term, err := m.campaign(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil, nil //nolint:nilerr,nilnil // shutdown is how Run ends well
		}
		return nil, err
	}
	m.pendingRelease = nil // this term has taken over the locks that were not released yet
	return m.startTerm(ctx, term, work), nil
}

// after rests after a term if that is due, or reports that Run is over, and with which error.
func (m *machine) after(ctx context.Context, term *Term, ended *Ended) (over bool, err error) {
	close(term.over)
	reason := ended.Reason // decides how the candidate continues
	if reason == ReasonFailed && restarts(ended.Err) {
		reason = ReasonFinished
	}
	switch {
	case reason == ReasonPanicked, reason == ReasonFailed && !m.cfg.RetryFailed:
		return true, ended.Err
	case ctx.Err() != nil:
		return true, term.unreleased // shutdown is how Run ends well
	}
	m.failuresInRow = countFailures(m.failuresInRow, reason, time.Since(term.since), m.cfg.Lease)
	if d := m.cfg.restAfter(reason, m.failuresInRow); d > 0 {
		m.rest(ctx, d, ended)
	}
	return false, nil
}

// runError returns what Run returns when run has returned err.
func (m *machine) runError(ctx context.Context, err error) error {
	if err == nil {
		err = m.awaitPendingRelease()
	}
	if errors.Is(context.Cause(ctx), ErrClosed) && !errors.Is(err, ErrClosed) {
		return errors.Join(ErrClosed, err)
	}
	return err
}

// countFailures counts the terms in a row that ended as unhealthy or failed. A good term in
// between makes the next trip the first one again.
func countFailures(trips int, r Reason, led, life time.Duration) int {
	switch {
	case r != ReasonUnhealthy && r != ReasonFailed:
		return 0
	case led > 4*life:
		return 1
	default:
		return trips + 1
	}
}

// restAfter returns the pause before the next campaign.
func (c *Config) restAfter(r Reason, trips int) time.Duration {
	switch r {
	case ReasonUnhealthy, ReasonFailed:
		return c.Cooldown << min(trips-1, 4)
	case ReasonResigned, ReasonHandover:
		return c.Cooldown
	case ReasonFinished:
		return c.Lease / 10
	default: // nothing was wrong with this candidate: it campaigns again at once
		return 0
	}
}

// rest blocks for d after a term, or until ctx ends. Meanwhile it polls the state of the election.
func (m *machine) rest(ctx context.Context, d time.Duration, after *Ended) {
	m.mu.Lock()
	m.rested, m.restWhy = time.Now().Add(d), after.summary()
	m.mu.Unlock()
	m.become(roleResting, nil, slog.String("for", unit(d)))
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

// awaitPendingRelease blocks, at the end of Run, until a release that is still being retried in the
// background has ended, and returns its error. It ignores a release that failed earlier: the lock
// has lapsed, which was logged, and others may have led since.
func (m *machine) awaitPendingRelease() error {
	owed := m.pendingRelease
	m.pendingRelease = nil
	if owed == nil || len(owed) > 0 {
		return nil
	}
	return <-owed
}

// campaigns returns nil, or the reason why this candidate never campaigns.
func (c *candidate) campaigns() error {
	if c.cfg.Observer {
		return failed(ErrNotLeader, "not the leader: this candidate is an observer (Config.Observer), which never campaigns")
	}
	return nil
}
