package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
)

// actFlags are the flags of the commands that act on an election.
type actFlags struct {
	asJSON, force bool
	timeout       time.Duration
	by, reason    string
}

// add adds those flags that have a usage text, and those of all these commands.
func (o *actFlags) add(cmd *cobra.Command, reason, force string) {
	f := cmd.Flags()
	f.BoolVar(&o.asJSON, "json", false, "print one JSON object")
	f.StringVar(&o.by, "by", "", "`WHO` requests it, for the history and the status (env MANDATE_BY; default USER@HOST)")
	if reason != "" {
		f.StringVar(&o.reason, "reason", "", reason)
	}
	if force != "" {
		f.BoolVar(&o.force, "force", false, force)
	}
}

// maxReason and maxBy together fit into an entry of the history.
const (
	maxReason = 380
	maxBy     = 100
)

// open is the PreRunE of these commands: it opens the election, to act on it as the operator.
func (o *actFlags) open(a *app) func(cmd *cobra.Command, args []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if len(o.reason) > maxReason {
			a.problem("--reason is %d bytes long: at most %d", len(o.reason), maxReason)
		}
		o.by = a.operator(o.by)
		err := a.openElection(cmd, args)
		if err == nil {
			a.election = a.election.As(o.by)
		}
		return err
	}
}

// operator returns the name of the operator: the flag, or else the environment variable, or else
// the user and host of this process.
func (a *app) operator(by string) string {
	from := "--by"
	if by == "" {
		by, from = a.variable("MANDATE_BY"), "MANDATE_BY"
	}
	if by == "" {
		host, _ := os.Hostname() // the user name alone must do
		name := "?"
		if u, err := user.Current(); err == nil {
			name = u.Username
		}
		by = output.Printable(strings.ToValidUTF8(strings.TrimSuffix(name+"@"+host, "@"), "?"))
		return strings.ToValidUTF8(by[:min(len(by), maxBy)], "")
	}
	if len(by) > maxBy || by != output.Printable(by) || !utf8.ValidString(by) {
		a.problem("%s is %.120q: give a name of at most %d bytes, without control characters", from, by, maxBy)
	}
	return by
}

// handOver runs a request that moves the leadership, within the time-out, and prints the outcome.
// from is the present leader; without one the request itself fails.
func (a *app) handOver(ctx context.Context, o *actFlags, do func(ctx context.Context, el *elector.Election, from elector.Leader) (elector.Handover, error)) error {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	el := a.election
	var h elector.Handover
	st, err := el.Status(ctx)
	if err == nil {
		var from elector.Leader
		if st.Leader != nil {
			from = *st.Leader
		}
		h, err = do(ctx, el, from)
	}
	if o.force && st.Paused && errors.Is(err, elector.ErrNoLeader) && h.From.Token != 0 && ctx.Err() == nil {
		err = nil // no leader is what a pause and --force are for
	}
	if perr := a.printHandover(h, err, o.asJSON); perr != nil {
		return perr
	}
	if err == nil || errors.Is(err, elector.ErrUnreachable) || st.Leader != nil && !errors.Is(err, elector.ErrNoLeader) {
		return err
	}
	switch {
	case st.Paused:
		err = &exitError{code: exitNoLeader, err: errors.New(err.Error() + "; the election is paused, to end that: " + a.given.command("resume", el.Name()))}
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

func (a *app) printHandover(h elector.Handover, err error, asJSON bool) error {
	if asJSON {
		var out handoverJSON
		if h.From.Token != 0 {
			out.From = &h.From
		}
		if h.To.Token != 0 {
			out.To = &h.To
		}
		if err != nil {
			out.Error = err.Error()
		}
		return output.JSON(a.stdout, out)
	}
	line := fmt.Sprintf("%s leads, token %d", h.To.Candidate, h.To.Token)
	switch {
	case h.To.Token == 0 && err == nil:
		line = h.From.Candidate + " has stepped down; paused: no leader until " + a.given.command("resume", a.election.Name())
	case h.To.Token == 0:
		return nil
	case h.To.Token == h.From.Token:
		line = fmt.Sprintf("%s leads already, token %d", h.To.Candidate, h.To.Token)
	}
	return output.New(a.stdout).Lines([]string{output.Printable(line)})
}

func (a *app) resignCommand() *cobra.Command {
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
		PreRunE: o.open(a),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.handOver(cmd.Context(), &o, func(ctx context.Context, el *elector.Election, from elector.Leader) (elector.Handover, error) {
				if !o.force {
					if _, err := el.Successors(ctx); errors.Is(err, elector.ErrRefused) {
						return elector.Handover{From: from}, &exitError{code: exitRefused, err: errors.New(err.Error() + ", or use --force")}
					}
				}
				return el.StepDown(ctx, o.reason)
			})
		},
	}
	o.add(cmd, "`TEXT` for the history", "even if no other candidate could lead")
	a.duration(cmd.Flags(), &o.timeout, "timeout", 30*time.Second, time.Millisecond, "how long to wait for the next leader")
	return cmd
}

func (a *app) transferCommand() *cobra.Command {
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
				a.problem("--to is missing: give the id of a candidate; mandate status NAME --wide lists them")
			}
			return o.open(a)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.handOver(cmd.Context(), &o, func(ctx context.Context, el *elector.Election, from elector.Leader) (elector.Handover, error) {
				if from.Candidate == to {
					return elector.Handover{From: from, To: from}, nil
				}
				return el.Transfer(ctx, to)
			})
		},
	}
	o.add(cmd, "", "")
	a.duration(cmd.Flags(), &o.timeout, "timeout", 30*time.Second, time.Millisecond, "how long to wait for the next leader")
	cmd.Flags().StringVar(&to, "to", "", "`ID` of the candidate that should lead (required)")
	return cmd
}
