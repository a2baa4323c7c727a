package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// attempts are how often a step is played until it has happened. A lease of a demo is short
// and counts on: while a busy machine lets this process stand still for half of it, a leader
// loses its term, and the step is another one's.
const attempts = 4

// errBroken is what no busy machine explains.
var errBroken = errors.New("a promise was broken")

// play plays a step with the present leader, again if it does not happen.
func (c *cluster) play(ctx context.Context, i int, st step) (what, measured string, err error) {
	for attempt := 1; ; attempt++ {
		if i > 0 && !c.catchUp(ctx) {
			return "", "", errors.Join(errors.New("there is no leader"), err)
		}
		what, measured, err = st.play(ctx, c)
		if err == nil || attempt == attempts || ctx.Err() != nil || errors.Is(err, errBroken) {
			return what, measured, err
		}
		c.note("%s", strings.Join(c.out.Wrap(fmt.Sprintf("once more: %v", err), clockWidth), "\n"))
		c.repair()
	}
}

// repair undoes what a step that broke off has left.
func (c *cluster) repair() {
	for _, a := range c.candidates {
		a.link.restore()
		a.hung.Store(false)
	}
}

// catchUp waits for the present leader, which need not be that of the last step. False:
// there is none, or ctx ended.
func (c *cluster) catchUp(ctx context.Context) bool {
	_, err := c.await(ctx, func(o observation) bool {
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
