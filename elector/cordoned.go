package elector

import (
	"github.com/mandate-dev/mandate/elector/internal/peers"
	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// followCordons has this candidate know whether it is cordoned, and changed called when that
// changes, until the returned function is called.
func (c *candidate) followCordons(changed func()) (leave func()) {
	s := c.cordons.Join(c.election.Prefix(), c.cfg.ID, peers.Host(), c.log, func() {
		changed()
		select {
		case c.recordoned <- struct{}{}:
		default:
		}
	})
	c.standing.Store(s)
	return s.Leave
}

// cordoned is the cordon of this candidate; nil: it is not.
func (c *candidate) cordoned() *quorum.Cordon {
	if s := c.standing.Load(); s != nil {
		return s.Cordon()
	}
	return nil
}
