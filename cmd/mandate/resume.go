package main

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/elector"
)

func (a *app) resumeCommand() *cobra.Command {
	var by string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "resume NAME",
		Short: "End a pause",
		Long: `End the pause of the election NAME. If there is none, that is not an error.

Exit codes
  0  the election is not paused
  1  resumed, but not on all nodes; stderr names the others
  2  invalid flags or arguments
  3  there is no such election: check the name
  4  no majority of the Redis nodes answered`,
		Example: `  mandate resume poller`,
		Args:    cobra.ArbitraryArgs,
		PreRunE: func(cmd *cobra.Command, args []string) error {
			by = a.operator(by)
			return a.openElection(cmd, args)
		},
	}
	cmd.RunE = a.onElection(func(ctx context.Context, el *elector.Election) error {
		done := pauseJSON{Election: el.Name()}
		if st, err := el.Status(ctx); err == nil {
			if !st.Paused && unknownElection(ctx, el, st) {
				return &exitError{code: exitNoLeader, err: errors.New(noTrace)}
			}
			done.idle = !st.Paused && allAnswered(st)
			if st.Paused {
				done.Replaced = pausedBy(st)
			}
		}
		done.By = by
		return a.printPause(el.As(by).Resume(ctx), done, asJSON)
	})
	a.byFlag(cmd, &by)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// allAnswered reports whether every node answered, so that no node can know more.
func allAnswered(st elector.Status) bool {
	return !slices.ContainsFunc(st.Nodes, func(n elector.NodeStatus) bool { return !n.Reachable })
}
