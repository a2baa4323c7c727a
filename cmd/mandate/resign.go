package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/elector"
)

func resignCommand(c *connection) *cobra.Command {
	var o actFlags
	cmd := &cobra.Command{
		Use:   "resign NAME",
		Short: "Make the leader step down, and wait for the next leader",
		Long: `Make the leader of the election NAME step down: it stops its work, releases the
lock, and campaigns again after its cool-down. Waits for the next leader, and
prints it; history has the time without one.

It calls the roll and tries whether the Redis nodes take writes, and is refused
if no other candidate could lead now: the work would stop. --force does it
nevertheless.`,
		Example: `  mandate resign poller --reason "kernel update on worker-3"`,
		PreRunE: o.open(c),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return handOver(cmd.Context(), c, &o, func(ctx context.Context, el *elector.Election, from elector.Leader) (elector.Handover, error) {
				if !o.force {
					if _, err := el.Successors(ctx); errors.Is(err, elector.ErrRefused) {
						return elector.Handover{From: from}, &exitError{code: exitRefused, err: errors.New(err.Error() + ", or use --force")}
					}
				}
				return el.StepDown(ctx, o.reason)
			})
		},
	}
	o.add(cmd, "`TEXT` for the history", "even if no other candidate could lead")
	c.duration(cmd.Flags(), &o.timeout, "timeout", 30*time.Second, time.Millisecond, "how long to wait for the next leader")
	return cmd
}
