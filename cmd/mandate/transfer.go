package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/elector"
)

func (a *app) transferCommand() *cobra.Command {
	var o handoverFlags
	var to string
	cmd := &cobra.Command{
		Use:   "transfer NAME --to ID",
		Short: "Hand over to a named candidate, and wait for it",
		Long: `Make the leader of the election NAME hand over to the candidate ID, and wait
until that candidate leads. If ID is not a candidate or not healthy, nothing
happens; if it fails meanwhile, any candidate may lead after a quarter of the
lease.` + handoverCodes,
		Example:           `  mandate transfer poller --to worker-2`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: a.completeElections,
		PreRunE: func(cmd *cobra.Command, args []string) error {
			if to == "" {
				a.problem("--to is missing: give the id of a candidate; mandate candidates NAME lists them")
			}
			return a.openElection(cmd, args)
		},
		RunE: a.handOver(&o, func(ctx context.Context, el *elector.Election) (elector.Handover, error) {
			return el.Transfer(ctx, to)
		}),
	}
	o.add(a, cmd)
	cmd.Flags().StringVar(&to, "to", "", "`ID` of the candidate that should lead (required)")
	_ = cmd.RegisterFlagCompletionFunc("to", a.completeCandidates)
	return cmd
}
