package doctor

import (
	"context"
	"slices"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// Unresponsive reports whether the leader of a status hangs or is dead, as far as can be seen from
// outside: it is missing from roll, a roll call made at the same time as the status, and a second
// reading of the status, of at most 300 ms, shows that it has neither been replaced nor renewed its
// lease; the lease may have ended. leader.LeaseLeft must be what is left of the lease now: lower it by
// the time since the status was read. The leader may also be alive, and not receive roll calls.
//
// Unresponsive returns false when anything is unconfirmed: ctx may have cut the roll call short.
func Unresponsive(ctx context.Context, el *elector.Election, leader elector.Leader, roll []elector.CandidateStatus) bool {
	if answers(leader, roll) || ctx.Err() != nil {
		return false
	}
	begin := time.Now()
	ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	st, err := el.Status(ctx)
	return err == nil && stuck(leader, st.Leader, time.Since(begin))
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
