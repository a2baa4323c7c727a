package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/elector"
)

func (a *app) resignCommand() *cobra.Command {
	var o handoverFlags
	cmd := &cobra.Command{
		Use:   "resign NAME",
		Short: "Make the leader step down, and wait for the next leader",
		Long: `Make the leader of the election NAME step down: it stops its work, releases the
lock, and campaigns again after its cool-down. Waits until another candidate
leads, and prints how long there was no leader.` + handoverCodes,
		Example:           `  mandate resign poller --reason "kernel update on worker-3"`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: a.completeElections,
		PreRunE: func(cmd *cobra.Command, args []string) error {
			a.checkReason(o.reason)
			return a.openElection(cmd, args)
		},
		RunE: a.handOver(&o, func(ctx context.Context, el *elector.Election) (elector.Handover, error) {
			return el.StepDown(ctx, o.reason)
		}),
	}
	o.add(a, cmd)
	cmd.Flags().StringVar(&o.reason, "reason", "", "`TEXT` for the history")
	return cmd
}
