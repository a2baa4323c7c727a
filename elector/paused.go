package elector

import (
	"context"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// doubt is about a pause: somebody said that there is one, or that it is over.
// Anybody can say so; only Redis knows.
type doubt struct {
	open    bool
	asked   time.Time // when Redis was asked last
	waiting bool      // for the time to ask again
}

// confirmPause asks Redis whether the election is paused, if that is in doubt:
// not often, whoever raises doubts. A candidate that waits for the end of a pause
// finds out by a claim.
func (c *cards) confirmPause(ctx context.Context) {
	d := &c.pauses
	if !d.open {
		return
	}
	if wait := c.timing.RetryEvery() - time.Since(d.asked); wait > 0 {
		if !d.waiting {
			d.waiting = true
			time.AfterFunc(wait, c.poke)
		}
		return
	}
	*d = doubt{asked: time.Now()}
	if c.isPaused() {
		select {
		case c.nudged <- struct{}{}:
		default:
		}
	}
	c.say(func() {
		if st, err := c.election.look(ctx); err == nil {
			c.setPaused(st.Pause)
		}
	})
}

// sayPause takes what a claim told about a pause.
func (c *candidate) sayPause(t quorum.Tally) {
	note := ""
	if t.Majority(quorum.Paused) {
		for _, a := range t.Answers {
			if a.Status == quorum.Paused {
				note = a.Note
			}
		}
	} else if t.Count(quorum.Held) > 0 {
		return // a claim is told of the holder first: it can't tell
	}
	c.setPaused(note)
}

// renewedIn takes what a renewal told about a pause.
func (c *candidate) renewedIn(t quorum.Tally) {
	paused, note := 0, ""
	for _, a := range t.Answers {
		if a.Status == quorum.Mine && a.Note != "" {
			paused, note = paused+1, a.Note
		}
	}
	majority := c.nodes.Majority()
	switch {
	case paused >= majority:
		c.setPaused(note)
	case t.Count(quorum.Mine)-paused >= majority:
		c.setPaused("")
	}
}
