package doctor

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/mandate-dev/mandate/elector"
)

// Bounds of the second look: with the first roll call, which a leader that hangs delays by
// a second, it fits into what a status may take.
const (
	beforeSecondRoll = 150 * time.Millisecond
	secondRoll       = 300 * time.Millisecond
)

// Unresponsive reports whether the leader of a status hangs or is dead, as far as can be seen from
// outside: it is missing from the roll that was called at the same time, and from one that
// Unresponsive calls after 150 ms, and has neither been replaced nor renewed its lease meanwhile;
// the lease may have ended. LeaseLeft is what is left of it now: lower it by the time since the
// status was read. It takes at most 450 ms, and is false when anything is unconfirmed: a term may have begun after
// the roll, or ctx may have cut the roll short. A leader that renews lives, and does not receive
// the roll, but one that has not in this short time may still be such a one.
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

// answers reports whether a leader is in the roll. One that names no incarnation can't be
// looked for, so it counts as if it were.
func answers(leader elector.Leader, roll []elector.CandidateStatus) bool {
	return leader.Incarnation == "" || slices.ContainsFunc(roll, func(c elector.CandidateStatus) bool {
		return c.Incarnation == leader.Incarnation || c.Incarnation == "" && c.ID == leader.Candidate
	})
}

// stuck reports whether a leader's term still is the current one and was not renewed, or has
// ended meanwhile with its lease: a lock that is released is gone before that.
func stuck(before elector.Leader, now *elector.Leader, elapsed time.Duration) bool {
	if now == nil {
		return before.LeaseLeft <= elapsed
	}
	return now.Incarnation == before.Incarnation && now.Token == before.Token && now.LeaseLeft < before.LeaseLeft
}
