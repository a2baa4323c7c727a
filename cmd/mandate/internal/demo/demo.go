package demo

import (
	"context"
	"fmt"
	"log/slog"
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
	if err != nil {
		return err
	}
	defer c.close()
	p.Println("%s", p.Paint(output.Bold, "mandate demo"))
	p.Println("Three Redis nodes and three candidates in this process. The lease is %v: the", demoLease)
	p.Println("longest time that a dead leader can keep the others waiting.")
	began := time.Now()
	all := steps()
	results := make([]result, len(all))
	for i, st := range all {
		results[i] = result{step: st.short, what: "not reached"}
	}
	for i, st := range all {
		p.Println("\n%s", p.Paint(output.Bold, fmt.Sprintf("%d  %s", i+1, st.title)))
		what, measured, stepErr := c.play(ctx, i, st)
		if ctx.Err() != nil && stepErr == nil {
			stepErr = context.Cause(ctx)
		}
		if stepErr != nil {
			results[i].what = "DID NOT HAPPEN: " + stepErr.Error()
			err = fmt.Errorf("step %d did not happen: %w", i+1, stepErr)
			break
		}
		results[i] = result{step: st.short, what: what, measured: measured, ok: true}
		pause(ctx, readingPause)
	}
	summarize(p, results, time.Since(began))
	return err
}
