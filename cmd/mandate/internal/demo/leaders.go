package demo

import (
	"context"
	"errors"
	"fmt"
)

// errBroken marks a failure that a busy machine does not explain. The step is not repeated.
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

// forget drops the observations of past terms: on the page the demo runs forever.
func (c *cluster) forget() {
	c.seen.keep(func(o observation) bool { return o.token == c.leader.token })
}

// catchUp waits for the present leader, which need not be that of the last step. It returns false
// if there is none, or if ctx has ended.
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
