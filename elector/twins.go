package elector

import (
	"context"
	"time"
)

// maxTwins bounds what is remembered, and logged, of processes with this
// candidate's id: anybody who may publish can invent them.
const maxTwins = 16

// twin is another process that says of itself, and now, that it has our id. Each
// candidate says so when it starts, and the others with its id answer. A lock that an
// earlier life of this process has left says nothing, so a restart under a fixed id is
// no twin.
func (c *cards) twin(other CandidateStatus) {
	if other.ID != c.cfg.ID || other.Incarnation == c.incarnation || c.twins[other.Incarnation] || len(c.twins) >= maxTwins {
		return
	}
	c.twins[other.Incarnation] = true
	c.log.Warn("another process uses the same candidate id",
		"other_host", other.Host, "other_role", other.Role, "other_incarnation", other.Incarnation,
		"other_running", other.RunningFor.Round(time.Second))
	c.introduce()
}

// introduce tells the others who this is.
func (c *cards) introduce() {
	card := c.card()
	c.tell(context.Background(), question{Kind: sayCard, Card: &card})
}
