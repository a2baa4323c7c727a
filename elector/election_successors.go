package elector

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/module"
	"github.com/mandate-dev/mandate/elector/internal/nodes"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
	"github.com/mandate-dev/mandate/elector/internal/rediserr"
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
	case c.Role == roleObserving:
		return fmt.Sprintf("%s is an observer", c.ID)
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
	s := el.Survey(ctx, 0, module.Only{})
	full := <-tried
	if s.StatusErr != nil {
		return Leader{}, nil, s.StatusErr
	}
	leader, err := s.Status.leader()
	if err == nil && s.Status.Paused {
		err = newRefusal("the election is paused (%s), so no other candidate could lead; resume it first", s.Status.Pause)
	}
	return leader, s.Candidates, cmp.Or(err, s.CandidatesErr, full)
}

// takesLock tries, with a write, whether a majority of the nodes would let a candidate take the
// lock. It returns ErrRefused when no majority takes the write and a node answers that it refuses
// writes.
func takesLock(ctx context.Context, nodes *nodes.Nodes, keys protocol.Keys, limit time.Duration) error {
	took := 0
	var refusing []error
	for _, err := range nodes.TryWrite(ctx, &keys, limit) {
		switch {
		case err == nil, rediserr.Denied(err): // the candidates' user may have the right
			took++
		case rediserr.Answered(err):
			refusing = append(refusing, err)
		}
	}
	if took >= nodes.Majority() || len(refusing) == 0 {
		return nil
	}
	return newRefusal("no other leader could be elected: %d of %d Redis nodes refuse writes (%s)", len(refusing), nodes.Len(), strings.TrimRight(refusing[0].Error(), "."))
}

// handoverBlocked returns why this leader must not hand over because of MaxTerm or a candidate with a higher
// priority: the election is paused, or nodes refuse writes. Such nodes let the leader
// renew and release its lock, but let no candidate take it: the election would have no leader until
// an operator frees memory or disk space. handoverBlocked queries the nodes; nil: the leader may hand over.
func (c *candidate) handoverBlocked(ctx context.Context) error {
	if c.isPaused() {
		return ErrRefused
	}
	err := takesLock(ctx, c.nodes, *c.keys, c.timing.CallTimeout())
	what := ""
	if err != nil {
		what = "refused"
	}
	c.handovers.note(c.log, handingOver, what, time.Now(), "error", err)
	return err
}
