package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/doctor"
	"github.com/mandate-dev/mandate/elector/shard"
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
	if a.groupNamed(ctx) == nil {
		return nil
	}
	return &exitError{code: exitNoLeader, err: errors.New(aGroup(a.election.Name(), a.given))}
}

// groupNamed returns the group that has the name of the election if there is no such election, and
// otherwise nil.
func (a *app) groupNamed(ctx context.Context) *report {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	name := a.election.Name()
	if st, err := a.election.Status(ctx); err != nil || !traceless(st) || !namesGroup(ctx, a.quorum, name) {
		return nil
	}
	r := &report{flags: a.given, group: &groupReport{Status: shard.Status{Group: name}}}
	r.readGroup(ctx, a.quorum)
	return r
}

// aboutGroup is the name of doctor's check of a group.
const aboutGroup = "group"

// groupFinding is doctor's finding for a group whose name was given as that of an election.
func (r *report) groupFinding() doctor.Finding {
	g := r.group
	name := output.Printable(g.Group)
	f := doctor.Finding{Check: aboutGroup, Level: doctor.LevelOK, Advice: r.flags.command("shards", g.Group)}
	why, _ := g.problem(r.flags)
	switch {
	case r.err != nil:
		f.Level, f.Found = doctor.LevelUnknown, name+" is a group of shards: "+elector.Problem(r.err)
	case g.gone:
		f.Level, f.Found = doctor.LevelWarn, name+" is a group of shards, and has no members any more"
	case why != "":
		f.Level, f.Found = doctor.LevelFail, name+" is a group of shards: "+why
		if len(g.Unowned) == 0 {
			f.Level = doctor.LevelWarn
		}
	default:
		f.Found = fmt.Sprintf("%s is a group of shards: %s, %s members able", name, g.owned(), g.able())
	}
	return f
}
