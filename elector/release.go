package elector

import (
	"context"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/quorum"
	"github.com/mandate-dev/mandate/elector/internal/standby"
)

// release gives the lock back: the work has returned. The nodes notify the front row in
// the same step. All others, and the history, are notified a little later and in the
// background, so that they don't stand in its way.
func (l *leadership) release(ended *Ended) {
	e := l.e
	held := l.term.held() // before the lock may be another's
	l.keepLease.Store(false)
	l.term.armed.Store(false)
	l.stopProbe()
	if l.renewalInFlight { // a release follows the end of the renewal before it
		<-l.renewed
		l.renewalInFlight = false
	}
	heir := e.heir(l.term)
	ev := e.event(EventReleased, l.term, ended)
	ev.Next = heir.Incarnation
	l.term.unreleased = l.giveBack(e.voter.Releasing(l.term.token, heir), ended.Reason)
	close(l.released)
	e.feed.publish(ev)
	clock := e.clock // a later Run may have another one
	e.voter.Go(func() {
		defer close(l.reported)
		time.Sleep(standby.FrontRowLead)
		<-l.announced
		if since, ok := clock.Since(l.term.begun); ok && held > 0 {
			ev.Held, ev.Late = held, max(0, since-held)
		}
		e.voter.Announce(ev.encode(), "")
	})
	<-l.probeDone
}

// giveBack repeats the release until it is definite on a majority of the nodes, or
// the lock has lapsed by itself. It blocks meanwhile, except where this candidate
// campaigns again at once: its next claim takes what it still holds.
func (l *leadership) giveBack(r *quorum.Release, why Reason) error {
	e := l.e
	tally := r.Try(e.cfg.Lease)
	if r.Definite() {
		if r.Left() > 0 {
			going := e.going // a later Run has its own
			e.voter.Go(func() { _ = l.repeat(going, r, func() bool { return r.Left() == 0 }) })
		}
		return nil
	}
	if l.lapsesIn() <= 0 {
		return nil // it was over before
	}
	e.log.Warn("lock not released, retrying until it lapses", "token", l.term.token,
		"at_most", l.lapsesIn().Round(time.Millisecond), "error", joinNodes(nodeErrors(tally.Troubles())))
	if (why == ReasonExpired || why == ReasonLost) && l.term.stopped == nil && l.ctx.Err() == nil {
		owed := make(chan error, 1)
		e.owed = owed
		e.voter.Go(func() { owed <- l.repeat(context.Background(), r, r.Definite) })
		return nil
	}
	return l.repeat(context.Background(), r, r.Definite)
}

// repeat tries a release again, at first at once and on a new connection, then less
// and less often, until enough is done, the lock has lapsed, or ctx has ended.
func (l *leadership) repeat(ctx context.Context, r *quorum.Release, enough func() bool) error {
	e := l.e
	for wait := time.Duration(0); !enough(); wait = min(max(2*wait, e.cfg.Lease/256), e.timing.RetryEvery()) {
		sleep(ctx, wait)
		left := l.lapsesIn()
		tally := r.Try(max(left, e.timing.CallTimeout()))
		switch {
		case enough():
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case left > 0:
			continue
		case r.Definite():
			return nil // what is left has lapsed
		}
		err := &NotReleasedError{Token: l.term.token, Err: joinNodes(nodeErrors(tally.Troubles()))}
		e.log.Warn("lock not released, it has lapsed", "token", l.term.token, "error", err.Err)
		return err
	}
	return nil
}

// lapsesIn is how long the nodes may still hold the lock: a renewal that nobody
// confirmed may have prolonged it, too.
func (l *leadership) lapsesIn() time.Duration {
	elapsed, ok := l.e.clock.Since(l.lastSent)
	if !ok { // the clocks contradict each other
		return 0
	}
	return l.e.cfg.Lease + l.e.timing.Drift() - elapsed
}

// settleUp waits for a release that is still repeated in the background, at Run's end.
// One that failed before is no news: its lock has lapsed, which was logged, and others
// may have led since.
func (e *Elector) settleUp() error {
	if e.owed == nil {
		return nil
	}
	owed := e.owed
	e.owed = nil
	if len(owed) > 0 {
		return nil
	}
	return <-owed
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
