package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
)

func transferCommand(c *connection) *cobra.Command {
	var o actFlags
	var id string
	cmd := &cobra.Command{
		Use:   "transfer NAME --to ID",
		Short: "Hand over to a named candidate, and wait for it",
		Long: `Make the leader of the election NAME hand over to the candidate ID, and wait
until that candidate leads. If ID leads already, that is a success. If ID is
not a candidate or could not lead now, it is refused and nothing happens; if ID
fails meanwhile, any candidate may lead after a quarter of the lease.`,
		Example: `  mandate transfer poller --to worker-2`,
		PreRunE: func(cmd *cobra.Command, args []string) error {
			if id == "" {
				c.problem("--to is missing: give the id of a candidate; mandate status NAME --wide lists them")
			}
			return o.open(c)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return handOver(cmd.Context(), c, &o, func(ctx context.Context, el *elector.Election, leader elector.Leader) (from, to elector.Leader, err error) {
				if leader.Candidate == id {
					return leader, leader, nil
				}
				return el.Transfer(ctx, id)
			})
		},
	}
	o.add(cmd, "", "")
	c.duration(cmd.Flags(), &o.timeout, "timeout", 30*time.Second, time.Millisecond, "how long to wait for the next leader")
	cmd.Flags().StringVar(&id, "to", "", "`ID` of the candidate that should lead (required)")
	return cmd
}

func resignCommand(c *connection) *cobra.Command {
	var o actFlags
	cmd := &cobra.Command{
		Use:   "resign NAME",
		Short: "Make the leader step down, and wait for the next leader",
		Long: `Make the leader of the election NAME step down: it stops its work, releases the
lock, and campaigns again after its cool-down. Waits for the next leader, and
prints it; history has the time without one.

It calls the roll and tries whether the Redis nodes take writes, and is refused
if no other candidate could lead now: the work would stop. --force does it
nevertheless.`,
		Example: `  mandate resign poller --reason "kernel update on worker-3"`,
		PreRunE: o.open(c),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return handOver(cmd.Context(), c, &o, func(ctx context.Context, el *elector.Election, leader elector.Leader) (from, to elector.Leader, err error) {
				if !o.force {
					if _, err := el.Successors(ctx); errors.Is(err, elector.ErrRefused) {
						return leader, to, &exitError{code: exitRefused, err: errors.New(err.Error() + ", or use --force")}
					}
				}
				return el.StepDown(ctx, o.reason)
			})
		},
	}
	o.add(cmd, "`TEXT` for the history", "even if no other candidate could lead")
	c.duration(cmd.Flags(), &o.timeout, "timeout", 30*time.Second, time.Millisecond, "how long to wait for the next leader")
	return cmd
}

// handOver runs a request that moves the leadership, within the time-out, and prints the outcome.
// leader is the present one; without one the request itself fails.
func handOver(ctx context.Context, c *connection, o *actFlags, do func(ctx context.Context, el *elector.Election, leader elector.Leader) (from, to elector.Leader, err error)) error {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	el := c.election
	var from, to elector.Leader
	st, err := el.Status(ctx)
	if err == nil {
		var leader elector.Leader
		if st.Leader != nil {
			leader = *st.Leader
		}
		from, to, err = do(ctx, el, leader)
	}
	if o.force && st.Paused && errors.Is(err, elector.ErrNoLeader) && from.Token != 0 && ctx.Err() == nil {
		err = nil // no leader is what a pause and --force are for
	}
	if perr := printHandover(c, from, to, err, o.asJSON); perr != nil {
		return perr
	}
	if err == nil || errors.Is(err, elector.ErrUnreachable) || st.Leader != nil && !errors.Is(err, elector.ErrNoLeader) {
		return err
	}
	switch {
	case st.Paused:
		err = &exitError{code: exitNoLeader, err: errors.New(err.Error() + "; the election is paused, to end that: " + c.given.command("resume", el.Name()))}
	case unknownElection(ctx, el, st):
		err = &exitError{code: exitNoLeader, err: errors.New(err.Error() + "; " + noTrace)}
	}
	return err
}

// handoverJSON is what resign and transfer print with --json.
type handoverJSON struct {
	From  *elector.Leader `json:"from"`            // null: there was none
	To    *elector.Leader `json:"to"`              // who leads now; null: nobody, or not known
	Error string          `json:"error,omitempty"` // why nothing, or not all, was done
}

func printHandover(c *connection, from, to elector.Leader, err error, asJSON bool) error {
	if asJSON {
		var out handoverJSON
		if from.Token != 0 {
			out.From = &from
		}
		if to.Token != 0 {
			out.To = &to
		}
		if err != nil {
			out.Error = err.Error()
		}
		return output.JSON(c.stdout, out)
	}
	line := fmt.Sprintf("%s leads, token %d", to.Candidate, to.Token)
	switch {
	case to.Token == 0 && err == nil:
		line = from.Candidate + " has stepped down; paused: no leader until " + c.given.command("resume", c.election.Name())
	case to.Token == 0:
		return nil
	case to.Token == from.Token:
		line = fmt.Sprintf("%s leads already, token %d", to.Candidate, to.Token)
	}
	return output.New(c.stdout).Lines([]string{output.Printable(line)})
}
