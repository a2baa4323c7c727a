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
