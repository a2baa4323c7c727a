package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
)

func (a *app) resignCommand() *cobra.Command {
	var o handoverFlags
	var reason string
	cmd := &cobra.Command{
		Use:   "resign NAME",
		Short: "Make the leader step down, and wait for the next leader",
		Long: `Make the leader of the election NAME step down: it stops its work, releases the
lock, and campaigns again after its cool-down. Waits until another candidate
leads, and prints how long there was no leader.

It calls the roll and tries whether the Redis nodes take writes, and is refused
if no other candidate could lead now: the work would stop. --force does it
nevertheless.` + handoverCodes,
		Example: `  mandate resign poller --reason "kernel update on worker-3"
  mandate resign poller --yes`,
		Args: cobra.ArbitraryArgs,
		PreRunE: func(cmd *cobra.Command, args []string) error {
			a.checkReason(reason)
			o.by = a.operator(o.by)
			return a.openElection(cmd, args)
		},
		RunE: a.handOver(&o, handover{
			question: func(leader elector.Leader, able []elector.CandidateStatus, refusal error) (string, error) {
				if refusal != nil { // no candidate could take over: the leader stays
					return "", refused("%s, or use --force", elector.Problem(refusal))
				}
				return askStepDown(a.election.Name(), leader, able), nil
			},
			do: func(ctx context.Context, el *elector.Election) (elector.Handover, error) {
				return el.StepDown(ctx, reason)
			},
		}),
	}
	o.add(a, cmd)
	cmd.Flags().BoolVar(&o.force, "force", false, "even if no other candidate could lead")
	cmd.Flags().StringVar(&reason, "reason", "", "`TEXT` for the history")
	return cmd
}

func askStepDown(election string, leader elector.Leader, able []elector.CandidateStatus) string {
	return fmt.Sprintf("Make %s step down from %s? Then one of these leads: %s.", leader.Candidate, election, output.List(idsOf(able), 5))
}
