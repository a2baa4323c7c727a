package peers

import (
	"context"
	"time"
)

// maxTwins bounds what is remembered, and logged, of processes with this
// candidate's id: anyone who may publish can invent them.
const maxTwins = 16

// twin is another process that publishes now that it has our id. Each
// candidate publishes what it is when it starts, and the others with its id answer. A lock
// that an earlier life of this process has left proves nothing, so a restart under a fixed
// id is no twin.
func (p *Peers) twin(other Candidate) {
	if other.ID != p.c.ID || other.Incarnation == p.c.Incarnation || p.twins[other.Incarnation] || len(p.twins) >= maxTwins {
		return
	}
	if p.twins == nil {
		p.twins = map[string]bool{}
	}
	p.twins[other.Incarnation] = true
	p.c.Log.Warn("another process uses the same candidate id",
		"other_host", other.Host, "other_role", other.Role, "other_incarnation", other.Incarnation,
		"other_running", other.RunningFor.Round(time.Second))
	p.introduce()
}

// introduce publishes what this candidate is.
func (p *Peers) introduce() {
	self := p.self()
	p.publish(context.Background(), request{Kind: info, Candidate: &self})
}
