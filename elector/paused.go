package elector

import (
	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

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
