package elector

import (
	"context"
	"log/slog"
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
	if wait := c.e.timing.RetryEvery() - time.Since(d.asked); wait > 0 {
		if !d.waiting {
			d.waiting = true
			time.AfterFunc(wait, c.poke)
		}
		return
	}
	*d = doubt{asked: time.Now()}
	if c.e.isPaused() {
		select {
		case c.e.nudged <- struct{}{}:
		default:
		}
	}
	c.say(func() {
		if st, err := c.e.election.look(ctx); err == nil {
			c.e.setPaused(st.Pause)
		}
	})
}

// sayPause takes what a claim told about a pause.
func (e *Elector) sayPause(t quorum.Tally) {
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
	e.setPaused(note)
}

// renewedIn takes what a renewal told about a pause.
func (e *Elector) renewedIn(t quorum.Tally) {
	paused, note := 0, ""
	for _, a := range t.Answers {
		if a.Status == quorum.Mine && a.Note != "" {
			paused, note = paused+1, a.Note
		}
	}
	majority := e.quorum.nodes.Majority()
	switch {
	case paused >= majority:
		e.setPaused(note)
	case t.Count(quorum.Mine)-paused >= majority:
		e.setPaused("")
	}
}

// isPaused tells whether nobody new is elected, as far as is known: then a leader
// makes room for nobody on its own account.
func (e *Elector) isPaused() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.paused != ""
}

// setPaused says a pause once, and once that it is over.
func (e *Elector) setPaused(note string) {
	e.mu.Lock()
	old := e.paused
	e.paused = note
	e.mu.Unlock()
	switch {
	case note != "" && old != note:
		e.log.Info("election paused, no new leader will be elected", slog.String("note", note))
	case note == "" && old != "":
		e.log.Info("election resumed")
	}
}
