package doctor

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// Times of the second roll call. Together with the first one, which a leader that hangs delays by
// a second, it fits into the time that a status may take.
const (
	beforeSecondRoll = 150 * time.Millisecond
	secondRoll       = 300 * time.Millisecond
)

// Unresponsive reports whether the leader of a status hangs or is dead, as far as can be seen from
// outside. The leader must be missing from roll, a roll call made at the same time as the status, and
// from a second one that Unresponsive makes after 150 ms. Meanwhile it must neither have been replaced
// nor have renewed its lease; the lease may have ended. leader.LeaseLeft must be what is left of the
// lease now: lower it by the time since the status was read.
//
// Unresponsive takes at most 450 ms. It returns false when anything is unconfirmed: a term may have
// begun after the roll call, or ctx may have cut the roll call short. A leader that renews is alive
// but does not receive roll calls; a leader that has not renewed in this short time may also be such
// a one.
func Unresponsive(ctx context.Context, el *elector.Election, leader elector.Leader, roll []elector.CandidateStatus) bool {
	if answers(leader, roll) || ctx.Err() != nil {
		return false
	}
	begin := time.Now()
	select {
	case <-time.After(beforeSecondRoll):
	case <-ctx.Done():
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, secondRoll)
	defer cancel()
	var again []elector.CandidateStatus
	var rollErr error
	var wg sync.WaitGroup
	wg.Go(func() { again, rollErr = el.Candidates(ctx) })
	st, err := el.Status(ctx)
	wg.Wait()
	return rollErr == nil && err == nil && stuck(leader, st.Leader, time.Since(begin)) && !answers(leader, again)
}

// answers reports whether a leader has answered the roll call. A leader without an incarnation can't
// be looked up, so it counts as if it had.
func answers(leader elector.Leader, roll []elector.CandidateStatus) bool {
	return leader.Incarnation == "" || slices.ContainsFunc(roll, func(c elector.CandidateStatus) bool {
		return c.Incarnation == leader.Incarnation || c.Incarnation == "" && c.ID == leader.Candidate
	})
}

// stuck reports whether a leader's term is still the current one and was not renewed, or has ended
// meanwhile because its lease expired. If the lock is gone earlier than that, the leader has
// released it.
func stuck(before elector.Leader, now *elector.Leader, elapsed time.Duration) bool {
	if now == nil {
		return before.LeaseLeft <= elapsed
	}
	return now.Incarnation == before.Incarnation && now.Token == before.Token && now.LeaseLeft < before.LeaseLeft
}
