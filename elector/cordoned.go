package elector

import (
	"github.com/mandate-dev/mandate/elector/internal/peers"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// followCordons keeps track of whether this candidate is cordoned, and calls changed when that
// changes, until leave is called.
func (c *candidate) followCordons(changed func()) (leave func()) {
	s := c.cordons.Join(c.election.Prefix(), c.cfg.ID, peers.Host(), c.log, func() {
		changed()
		c.lookAgain()
	})
	c.cordonStatus.Store(s)
	return s.Leave
}

// lookAgain makes a waiting candidate claim at once unless it is cordoned, and a leader check whether
// it is drained.
func (c *candidate) lookAgain() {
	select {
	case c.cordonChanged <- struct{}{}:
	default:
	}
}

// cordoned returns the cordon of this candidate; nil: there is none.
func (c *candidate) cordoned() *protocol.Cordon {
	if s := c.cordonStatus.Load(); s != nil {
		return s.Cordon()
	}
	return nil
}

// drained returns the cordon of this candidate if it is a drain, so that a leader must hand over;
// otherwise nil. It is nil for a shard: members hand these over by the assigner's plan.
func (c *candidate) drained() *protocol.Cordon {
	if now := c.cordoned(); now != nil && now.Drain && c.since.IsZero() {
		return now
	}
	return nil
}
