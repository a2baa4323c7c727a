package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// attempts is how often a step is tried. The lease of the demo is short: when a busy machine
// suspends this process for half of it, the leader loses its term, and the step fails because
// another candidate leads.
const attempts = 4

// play plays a step with the present leader, and repeats it if it fails.
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

// repair undoes what a failed step has left.
func (c *cluster) repair() {
	for _, a := range c.candidates {
		a.link.restore()
		a.hung.Store(false)
	}
}
