package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
)

// aGroup tells the user that name is a group and not an election, and which command to type
// instead.
func aGroup(name string, given nextFlags) string {
	return fmt.Sprintf("%s is a group of shards, not an election: %s", output.Printable(name), given.command("shards", name))
}

// explainGroups replaces the error about an unknown election if its name is that of a group. In an
// incident users may not remember which names are groups, and "is the name right?" would mislead
// them.
func (a *app) explainGroups(cmd *cobra.Command, exit *exitError, err error) error {
	args := cmd.Flags().Args()
	if exit.code != exitNoLeader || exit.quiet || len(args) != 1 || a.election == nil || a.election.Name() != args[0] {
		return err
	}
	return cmp.Or(a.refuseGroup(cmd.Context()), err)
}

// refuseGroup returns an error if the name of the election is only that of a group, otherwise nil.
func (a *app) refuseGroup(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	name := a.election.Name()
	if st, err := a.election.Status(ctx); err != nil || !traceless(st) || !namesGroup(ctx, a.quorum, name) {
		return nil
	}
	return &exitError{code: exitNoLeader, err: errors.New(aGroup(name, a.given))}
}
