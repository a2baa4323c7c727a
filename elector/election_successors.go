package elector

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"
)

// trialTimeout bounds the trial write of Successors and Transfer.
const trialTimeout = time.Second

// Successors returns the candidates that could be elected if the leader stepped down now, by id.
// Call it before StepDown, which ends a term even when no other candidate can lead. The error is
// ErrNoLeader when no candidate leads, and ErrRefused when no other candidate could: the election is
// paused, so many nodes refuse writes that no lock can be taken (a node without memory still
// answers, and lets the leader renew), or none of the other candidates is able.
//
// Successors calls the roll like Candidates, with its bounds and errors, and writes a key that
// expires after 100 ms on each node. A Redis user that may not write does not find out that way
// whether nodes refuse writes.
func (el *Election) Successors(ctx context.Context) ([]CandidateStatus, error) {
	leader, all, err := el.electable(ctx)
	if err != nil {
		return nil, err
	}
	return leader.successors(all)
}

// successors returns the candidates in a roll call that could be elected if this leader stepped
// down, and ErrRefused when there is none.
func (l Leader) successors(roll []CandidateStatus) ([]CandidateStatus, error) {
	var able []CandidateStatus
	var unable []string
	for _, c := range roll {
		switch why := whyUnable(c); {
		case c.Incarnation == l.Incarnation:
		case why != "":
			unable = append(unable, why)
		default:
			able = append(able, c)
		}
	}
	switch {
	case len(able) > 0:
		return able, nil
	case len(unable) == 0:
		return nil, newRefusal("there is no other candidate that could lead; start one")
	default:
		const shown = 5
		if more := len(unable) - shown; more > 0 {
			unable = append(unable[:shown], fmt.Sprintf("%d more", more))
		}
		return nil, newRefusal("no other candidate could lead now: %s; wait for one", strings.Join(unable, ", "))
	}
}

// whyUnable returns why a candidate that does not lead could not be elected now; "" if it could.
func whyUnable(c CandidateStatus) string {
	switch {
	case c.Unable:
		return fmt.Sprintf("%s is unable: %s", c.ID, c.Detail)
	case !c.Healthy:
		return fmt.Sprintf("%s is unhealthy: %s", c.ID, strings.TrimPrefix(c.Detail, "unhealthy: "))
	case c.Role != roleFollowing:
		return fmt.Sprintf("%s is %s", c.ID, c.Role)
	default:
		return ""
	}
}

// electable returns the leader and the candidates, and meanwhile tries whether the nodes would let any candidate take
// the lock. The error is ErrRefused when no majority would, or the election is paused: then the leader must not release it.
func (el *Election) electable(ctx context.Context) (Leader, []CandidateStatus, error) {
	tried := make(chan error, 1)
	go func() { tried <- takesLock(ctx, el.nodes, el.keys, trialTimeout) }()
	l := el.Look(ctx, 0)
	full := <-tried
	if l.StatusErr != nil {
		return Leader{}, nil, l.StatusErr
	}
	leader, err := l.leader()
	if err == nil && l.Paused {
		err = newRefusal("the election is paused (%s), so no other candidate could lead; resume it first", l.Pause)
	}
	return leader, l.Candidates, cmp.Or(err, l.CandidatesErr, full)
}
