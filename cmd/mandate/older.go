package main

import (
	"cmp"
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
)

func (a *app) allowOlderCommand() *cobra.Command {
	var reason, by string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "allow-older NAME [VERSION]",
		Short: "Let candidates of an older version lead again",
		Long: `Let candidates with --no-downgrade lead in the election NAME although a newer
version has led: those of VERSION and above, or without VERSION all. For a
rollback. It lasts until an older version has led, which is the highest from
then on, or a still newer one; or until refuse-older. It is kept in Redis. A
leader that is there remains leader.

Exit codes
  0  allowed on all nodes
  1  allowed, but not on all nodes; stderr names the others
  2  invalid flags or arguments
  3  there is no such election: check the name
  4  no majority of the Redis nodes answered
  7  no version has led that keeps others from leading; nothing was done`,
		Example:           `  mandate allow-older poller v1.4.2 --reason "v1.5.0 loses orders"`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: a.completeElections,
	}
	lowest := elector.AnyVersion
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		a.checkReason(reason)
		by = a.operator(by)
		if len(args) == 2 {
			lowest, args = args[1], args[:1]
			if !elector.SemanticVersion(lowest) {
				a.problem("VERSION is %.120q: give a semantic version, such as v1.4.2", lowest)
			}
		}
		return a.openElection(cmd, args)
	}
	cmd.RunE = a.onElection(func(ctx context.Context, el *elector.Election) error {
		return a.older(ctx, el, olderJSON{Election: el.Name(), Allowed: lowest, By: by, Reason: reason}, asJSON)
	})
	a.byFlag(cmd, &by)
	cmd.Flags().StringVar(&reason, "reason", "", "`TEXT` that status and the history show")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func (a *app) refuseOlderCommand() *cobra.Command {
	var by string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "refuse-older NAME",
		Short: "End what allow-older began",
		Long: `Have candidates with --no-downgrade refuse to lead the election NAME again, once
a newer version has led. If nothing else was allowed, that is not an error.

Exit codes
  0  older versions do not lead
  1  refused, but not on all nodes; stderr names the others
  2  invalid flags or arguments
  3  there is no such election: check the name
  4  no majority of the Redis nodes answered
  7  no version has led that keeps others from leading; nothing was done`,
		Example:           `  mandate refuse-older poller`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: a.completeElections,
		PreRunE: func(cmd *cobra.Command, args []string) error {
			by = a.operator(by)
			return a.openElection(cmd, args)
		},
	}
	cmd.RunE = a.onElection(func(ctx context.Context, el *elector.Election) error {
		return a.older(ctx, el, olderJSON{Election: el.Name(), By: by}, asJSON)
	})
	a.byFlag(cmd, &by)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// olderJSON is what allow-older and refuse-older print with --json.
type olderJSON struct {
	Election string `json:"election"`
	Highest  string `json:"highest"`           // the highest version that has led
	Allowed  string `json:"allowed,omitempty"` // the lowest version that may lead, or any; left out: none below Highest
	By       string `json:"by,omitempty"`
	Reason   string `json:"reason,omitempty"`
	Error    string `json:"error,omitempty"` // of the nodes that did not store it
}

func (o olderJSON) String() string {
	switch o.Allowed {
	case "":
		return o.Election + ": no version below " + o.Highest + " leads"
	case elector.AnyVersion:
		return o.Election + ": every version may lead again, until one that is not " + o.Highest + " has led"
	default:
		return o.Election + ": versions from " + o.Allowed + " on may lead again, until one that is not " + o.Highest + " has led"
	}
}

func (a *app) older(ctx context.Context, el *elector.Election, done olderJSON, asJSON bool) error {
	st, err := el.Status(ctx)
	switch {
	case err != nil:
		return err
	case unknownElection(ctx, el, st):
		return &exitError{code: exitNoLeader, err: errors.New(noTrace)}
	}
	done.Highest = st.Version
	if done.Allowed == "" {
		err = el.As(done.By).RefuseOlder(ctx)
	} else {
		err = el.As(done.By).AllowOlder(ctx, done.Allowed, done.Reason)
	}
	if errors.Is(err, elector.ErrUnreachable) || errors.Is(err, elector.ErrRefused) {
		return err
	}
	if err != nil {
		done.Error = elector.Problem(err)
	}
	if !asJSON {
		p := output.New(a.stdout)
		return cmp.Or(p.Lines(p.Prose(output.Printable(done.String()))), err)
	}
	return cmp.Or(output.JSON(a.stdout, done), err)
}
