package elector

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// NotReleasedError says that the lock of a term could not be given back: until it lapsed
// no majority of the Redis nodes had answered. Nobody else could be elected before
// that, and anybody can since.
type NotReleasedError struct {
	Token uint64 // of the term
	Err   error  // what the nodes said last
}

func (e *NotReleasedError) Error() string {
	return fmt.Sprintf("elector: the lock of term %d was not released, it has lapsed: %v", e.Token, e.Err)
}

// Is tells that it is an ErrNotReleased.
func (e *NotReleasedError) Is(target error) bool { return target == ErrNotReleased }

func (e *NotReleasedError) Unwrap() error { return e.Err }

// release gives the lock back: the work has returned. The front row hears of it
// in the same step; the others a little later, so that they don't stand in its
// way.
func (s *service) release(ended *Ended) {
	e := s.e
	held := s.term.held() // before the lock may be another's
	s.keeping.Store(false)
	s.term.armed.Store(false)
	s.closing()
	if s.renewing { // a release follows the end of the renewal before it
		<-s.renewed
		s.renewing = false
	}
	heir := e.heir(s.term)
	ev := e.event(EventReleased, s.term, ended)
	ev.Next = heir.Incarnation
	s.term.unreleased = s.giveBack(e.voter.Releasing(s.term.token, heir), ended.Reason)
	close(s.released)
	e.feed.publish(ev)
	time.Sleep(frontRowLead)
	<-s.announced
	if since, ok := e.clock.Since(s.term.begun); ok && held > 0 {
		ev.Held, ev.Late = held, max(0, since-held)
	}
	e.voter.Announce(ev.encode(), "")
	<-s.probing
}

// giveBack repeats the release until it is definite on a majority of the nodes, or
// the lock has lapsed by itself. It blocks meanwhile, except where this candidate
// campaigns again at once: its next claim takes what it still holds.
func (s *service) giveBack(r *quorum.Release, why Reason) error {
	e := s.e
	tally := r.Try(e.cfg.Lease)
	if r.Definite() {
		if r.Left() > 0 {
			going := e.going // a later Run has its own
			e.voter.Go(func() { _ = s.repeat(going, r, func() bool { return r.Left() == 0 }) })
		}
		return nil
	}
	if s.lapsesIn() <= 0 {
		return nil // it was over before
	}
	e.log.Warn("lock not released, retrying until it lapses", "token", s.term.token,
		"at_most", s.lapsesIn().Round(time.Millisecond), "error", errors.Join(tally.Troubles()...))
	if (why == ReasonExpired || why == ReasonLost) && s.term.stopped == nil && s.ctx.Err() == nil {
		owed := make(chan error, 1)
		e.owed = owed
		e.voter.Go(func() { owed <- s.repeat(context.Background(), r, r.Definite) })
		return nil
	}
	return s.repeat(context.Background(), r, r.Definite)
}

// repeat tries a release again, at first at once and on a new connection, then less
// and less often, until enough is done, the lock has lapsed, or ctx has ended.
func (s *service) repeat(ctx context.Context, r *quorum.Release, enough func() bool) error {
	e := s.e
	for wait := time.Duration(0); !enough(); wait = min(max(2*wait, e.cfg.Lease/256), e.timing.RetryEvery()) {
		pause(ctx, wait)
		left := s.lapsesIn()
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
		err := &NotReleasedError{Token: s.term.token, Err: errors.Join(tally.Troubles()...)}
		e.log.Warn("lock not released, it has lapsed", "token", s.term.token, "error", err.Err)
		return err
	}
	return nil
}

// lapsesIn is how long the nodes may still hold the lock: a renewal that nobody
// confirmed may have prolonged it, too.
func (s *service) lapsesIn() time.Duration {
	elapsed, ok := s.e.clock.Since(s.touched)
	if !ok { // the clocks contradict each other
		return 0
	}
	return s.e.cfg.Lease + s.e.timing.Drift() - elapsed
}

// settleUp waits for a release that is still repeated in the background, at Run's end.
func (e *Elector) settleUp() error {
	if e.owed == nil {
		return nil
	}
	owed := e.owed
	e.owed = nil
	return <-owed
}

// pause sleeps for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
