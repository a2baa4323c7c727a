package demo

import (
	"context"
	"errors"
	"fmt"
)

// errBroken is what no busy machine explains.
var errBroken = errors.New("a promise was broken")

// succession waits for the end of the old leader's work and the start of the next one's, and
// checks that they don't overlap.
func (c *cluster) succession(ctx context.Context, old observation) (stopped, next observation, err error) {
	stopped, err = c.seen.await(ctx, func(o observation) bool { return o.kind == workStopped && o.token == old.token })
	if err != nil {
		return stopped, next, err
	}
	next, err = c.seen.await(ctx, func(o observation) bool { return o.kind == workStarted && o.token > old.token })
	if err != nil {
		return stopped, next, err
	}
	if next.at.Before(stopped.at) {
		return stopped, next, fmt.Errorf("%w: two worked at once", errBroken)
	}
	c.before, c.leader = old, next
	return stopped, next, nil
}

// forget drops the observations of former terms: the story on the page has no end.
func (c *cluster) forget() {
	c.seen.keep(func(o observation) bool { return o.token == c.leader.token })
}

// catchUp waits for the present leader, which need not be that of the last step. False:
// there is none, or ctx ended.
func (c *cluster) catchUp(ctx context.Context) bool {
	_, err := c.seen.await(ctx, func(o observation) bool {
		if t := o.who.elector.Term(); o.kind != workStarted || t == nil || t.Token() != o.token {
			return false
		}
		if o.token != c.leader.token {
			c.before, c.leader = c.leader, o
		}
		return true
	})
	return err == nil
}
