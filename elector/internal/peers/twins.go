package peers

import (
	"context"
	"time"
)

// maxTwins bounds how many processes with this candidate's id are remembered and logged: anyone
// who may publish can invent them.
const maxTwins = 16

// twin logs that another running process uses this candidate's id, once for each. Each candidate
// publishes what it is when it starts, and candidates with the same id then publish what they
// are, too. A lock left by an earlier life of this process proves nothing, so a restart with a
// fixed id is not reported as a twin.
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
