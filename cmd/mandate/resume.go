package main

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/elector"
)

func resumeCommand(c *connection) *cobra.Command {
	var o actFlags
	cmd := &cobra.Command{
		Use:     "resume NAME",
		Short:   "End a pause",
		Long:    `End the pause of the election NAME. If there is none, that is not an error.`,
		Example: `  mandate resume poller`,
		PreRunE: o.open(c),
	}
	cmd.RunE = c.onElection(func(ctx context.Context, el *elector.Election) error {
		done := pauseJSON{Election: el.Name()}
		if st, err := el.Status(ctx); err == nil {
			if !st.Paused && unknownElection(ctx, el, st) {
				return &exitError{code: exitNoLeader, err: errors.New(noTrace)}
			}
			done.idle = !st.Paused && !slices.ContainsFunc(st.Nodes, func(n elector.NodeStatus) bool { return !n.Reachable }) // else a node may know more
			if st.Paused {
				done.Replaced = pausedBy(st)
			}
		}
		done.By = o.by
		return printPause(c.terminal, el.Resume(ctx), done, o.asJSON)
	})
	o.add(cmd, "", "")
	return cmd
}
