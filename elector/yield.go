package elector

import (
	"context"
	"strings"
	"time"

	"github.com/mandate-dev/mandate/elector/internal/quorum"
)

// takesLock tries whether a majority of the nodes would let a candidate take the lock; where
// too many refuse, and say so, it is ErrRefused.
func takesLock(ctx context.Context, nodes *quorum.Nodes, keys quorum.Keys, limit time.Duration) error {
	took := 0
	var refusing []error
	for _, err := range nodes.TryWrite(ctx, keys, limit) {
		switch {
		case err == nil, quorum.Denied(err): // what this user may not do, the candidates may
			took++
		case quorum.Answered(err):
			refusing = append(refusing, err)
		}
	}
	if took >= nodes.Majority() || len(refusing) == 0 {
		return nil
	}
	why := nodeErrors(refusing)[0]
	return refused("no other leader could be elected: %d of %d Redis nodes refuse writes (%s)", len(refusing), nodes.Len(), strings.TrimRight(why.Error(), "."))
}

// yieldable is why this leader must not make room for another candidate on its own account
// (MaxTerm, a higher priority): a pause, or nodes that refuse writes. These let it renew and
// release its lock, and no one take it: the election would be without a leader until someone
// makes room. It queries the nodes.
func (c *candidate) yieldable(ctx context.Context) error {
	if c.isPaused() {
		return ErrRefused
	}
	err := takesLock(ctx, c.nodes, *c.keys, c.timing.CallTimeout())
	c.mu.Lock()
	now := time.Now()
	begins := err != nil && c.keepReminder.since.IsZero()
	switch {
	case err == nil:
		c.keepReminder = reminder{}
	case begins:
		c.keepReminder.begin(now)
	}
	again, lasted := c.keepReminder.due(now), c.keepReminder.lasted(now)
	c.mu.Unlock()
	switch {
	case begins:
		c.log.Warn("not handing over to another candidate", "error", err)
	case again:
		c.log.Warn("still not handing over to another candidate", "for", lasted, "error", err)
	}
	return err
}
