package main

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/elector"
)

func (a *app) resumeCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "resume NAME",
		Short: "End a pause",
		Long: `End the pause of the election NAME. If there is none, that is not an error.

The exit codes are those of pause.`,
		Example:           `  mandate resume poller`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: a.completeElections,
		PreRunE:           a.openElection,
	}
	cmd.RunE = a.onElection(func(ctx context.Context, el *elector.Election) error {
		done := pauseJSON{Election: el.Name()}
		if st, serr := el.Status(ctx); serr == nil {
			a.hintTrace(cmd, el, st)
			done.idle = !st.Paused && allAnswered(st)
		}
		return a.printPause(el.Resume(ctx), done, asJSON)
	})
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// allAnswered tells that no node is left that may know more.
func allAnswered(st elector.Status) bool {
	return !slices.ContainsFunc(st.Nodes, func(n elector.NodeStatus) bool { return !n.Reachable })
}
