// Package demo implements `mandate demo`: three embedded Redis nodes and three candidates in one
// process, and the failures that elections protect against, each measured while it happens.
//
// cluster.go has the nodes and the candidates, observations.go what the candidates' work has seen,
// steps.go the steps.
package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
)

// Limit bounds a demo that is stuck. A demo normally takes about ten seconds.
const Limit = 100 * time.Second

// readingPause lets a person follow the output.
const readingPause = 400 * time.Millisecond

// Play plays all steps, up to the first one that fails.
func Play(ctx context.Context, p *output.Printer, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, Limit)
	defer cancel()
	c, err := newCluster(p, log)
	defer c.close()
	if err != nil {
		return err
	}
	p.Println("%s", p.Paint(output.Bold, "mandate demo"))
	p.Println("Three Redis nodes and three candidates in this process. The lease is %v: the", demoLease)
	p.Println("longest time that a dead leader can keep the others waiting.")
	began := time.Now()
	for i, st := range steps() {
		p.Println("\n%s", p.Paint(output.Bold, fmt.Sprintf("%d  %s", i+1, st.title)))
		err := c.play(ctx, i, st)
		if ctx.Err() != nil && err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return fmt.Errorf("step %d did not happen: %w", i+1, err)
		}
		pause(ctx, readingPause)
	}
	p.Println("\nIt took %.1f s. Now with a real Redis: mandate run --election NAME -- COMMAND", time.Since(began).Seconds())
	return nil
}

// attempts is how often a step is tried. The lease of the demo is short: when a busy machine
// suspends this process for half of it, the leader loses its term, and the step fails because
// another candidate leads.
const attempts = 4

// play plays a step with the present leader, and repeats it if it fails.
func (c *cluster) play(ctx context.Context, i int, st step) (err error) {
	for attempt := 1; ; attempt++ {
		if i > 0 && !c.catchUp(ctx) {
			return errors.Join(errors.New("there is no leader"), err)
		}
		if err = st.play(ctx, c); err == nil || attempt == attempts || ctx.Err() != nil || errors.Is(err, errBroken) {
			return err
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

// transcript prints events, each line with the time since the demo began.
type transcript struct {
	out   *output.Printer
	began time.Time
}

// report prints a line about a candidate, and note prints one about something else.
func (t transcript) report(a *candidate, what string) {
	gap := " "
	if strings.HasPrefix(what, "'") {
		gap = ""
	}
	lines := t.out.Wrap(what, clockWidth+len(a.name+gap))
	t.out.Println("%s  %s%s%s", t.clock(), t.out.Paint(a.color, a.name), gap, strings.Join(lines, "\n"))
}

func (t transcript) note(format string, args ...any) {
	t.out.Println("%s  %s", t.clock(), t.out.Paint(output.Dim, fmt.Sprintf(format, args...)))
}

// clockWidth is the width of the clock and the gap after it.
const clockWidth = 13

func (t transcript) clock() string {
	return t.out.Paint(output.Dim, fmt.Sprintf("%9.3f s", time.Since(t.began).Seconds()))
}
