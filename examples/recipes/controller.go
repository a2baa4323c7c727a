package main

import (
	"context"
	"os"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/health"
)

// runOrDie leads once, as after client-go's leaderelection.RunOrDie and controller-runtime's Manager.Start: the process
// ends with its lease, and is started again. So what it runs need not be startable twice.
func runOrDie(ctx context.Context, q *elector.Quorum) error {
	beat := health.NewHeartbeat(lease)
	e, err := elector.New(q, elector.Config{
		Election:   "controller",
		WorkProbe:  beat,
		Lease:      lease,                              // LeaseDuration
		StopMargin: lease / 3,                          // what is left of the lease after the RenewDeadline
		OnOverrun:  func(*elector.Term) { os.Exit(1) }, // the controller has not ended
	})
	if err != nil {
		return err
	}
	term, err := e.Campaign(ctx)
	if err != nil && ctx.Err() != nil {
		return nil
	} else if err != nil {
		return err
	}
	defer term.Close(ctx)
	leading, lost := context.WithCancel(ctx)
	defer context.AfterFunc(term.Context(), lost)()
	_ = loop(beat, step)(leading, term) // your controller, which returns when its workers have
	return term.Err()                   // nil after SIGTERM
}
