package main

import (
	"context"
	"fmt"
	"slices"

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
until that candidate leads. If ID leads already, that is a success. If ID is
not a candidate or could not lead now, it is refused and nothing happens; if ID
fails meanwhile, any candidate may lead after a quarter of the lease.` + handoverCodes,
		Example: `  mandate transfer poller --to worker-2`,
		Args:    cobra.ArbitraryArgs,
		PreRunE: func(cmd *cobra.Command, args []string) error {
			if to == "" {
				a.problem("--to is missing: give the id of a candidate; mandate candidates NAME lists them")
			}
			o.by = a.operator(o.by)
			return a.openElection(cmd, args)
		},
		RunE: a.handOver(&o, handover{
			question: func(leader elector.Leader, able []elector.CandidateStatus, _ error) (string, error) {
				return planTransfer(a.election.Name(), to, leader, able)
			},
			do: func(ctx context.Context, el *elector.Election) (elector.Handover, error) { return el.Transfer(ctx, to) },
		}),
	}
	o.add(a, cmd)
	cmd.Flags().StringVar(&to, "to", "", "`ID` of the candidate that should lead (required)")
	return cmd
}

// planTransfer returns errLeadsAlready if nothing needs to be done, or else the question to the
// operator. The library checks whether the transfer is possible.
func planTransfer(election, to string, leader elector.Leader, able []elector.CandidateStatus) (string, error) {
	switch is := slices.Contains(idsOf(able), to); {
	case leader.Candidate == to && !is: // if two candidates have this id, the other one may be meant
		return "", errLeadsAlready
	case !is:
		return "", nil // it will be refused, with the reason
	default:
		return fmt.Sprintf("Hand %s over from %s to %s?", election, leader.Candidate, to), nil
	}
}

func idsOf(candidates []elector.CandidateStatus) []string {
	ids := make([]string, len(candidates))
	for i, c := range candidates {
		ids[i] = c.ID
	}
	return ids
}
