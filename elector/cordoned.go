package elector

import (
	"github.com/mandate-dev/mandate/elector/internal/peers"
	"github.com/mandate-dev/mandate/elector/internal/protocol"
)

// followCordons has this candidate know whether it is cordoned, and changed called when that
// changes, until the returned function is called.
func (c *candidate) followCordons(changed func()) (leave func()) {
	s := c.cordons.Join(c.election.Prefix(), c.cfg.ID, peers.Host(), c.log, func() {
		changed()
		c.lookAgain()
	})
	c.standing.Store(s)
	return s.Leave
}

// lookAgain has a candidate that waits claim at once.
func (c *candidate) lookAgain() {
	select {
	case c.recordoned <- struct{}{}:
	default:
	}
}

// cordoned is the cordon of this candidate; nil: it is not.
func (c *candidate) cordoned() *protocol.Cordon {
	if s := c.standing.Load(); s != nil {
		return s.Cordon()
	}
	return nil
}

// drained is the cordon of this candidate if it has it hand over what it leads; nil: none does. A
// member of a group hands its shards over by the assigner's plan.
func (c *candidate) drained() *protocol.Cordon {
	if now := c.cordoned(); now != nil && now.Drain && c.since.IsZero() {
		return now
	}
	return nil
}
