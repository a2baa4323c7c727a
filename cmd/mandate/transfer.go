package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/elector"
)

func transferCommand(c *connection) *cobra.Command {
	var o actFlags
	var to string
	cmd := &cobra.Command{
		Use:   "transfer NAME --to ID",
		Short: "Hand over to a named candidate, and wait for it",
		Long: `Make the leader of the election NAME hand over to the candidate ID, and wait
until that candidate leads. If ID leads already, that is a success. If ID is
not a candidate or could not lead now, it is refused and nothing happens; if ID
fails meanwhile, any candidate may lead after a quarter of the lease.`,
		Example: `  mandate transfer poller --to worker-2`,
		PreRunE: func(cmd *cobra.Command, args []string) error {
			if to == "" {
				c.problem("--to is missing: give the id of a candidate; mandate status NAME --wide lists them")
			}
			return o.open(c)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return handOver(cmd.Context(), c, &o, func(ctx context.Context, el *elector.Election, from elector.Leader) (elector.Handover, error) {
				if from.Candidate == to {
					return elector.Handover{From: from, To: from}, nil
				}
				return el.Transfer(ctx, to)
			})
		},
	}
	o.add(cmd, "", "")
	c.duration(cmd.Flags(), &o.timeout, "timeout", 30*time.Second, time.Millisecond, "how long to wait for the next leader")
	cmd.Flags().StringVar(&to, "to", "", "`ID` of the candidate that should lead (required)")
	return cmd
}
