package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/elector"
)

const steerCodes = `

Exit codes
  0  another candidate leads
  2  invalid flags or arguments
  3  there is no leader, or no new leader within --timeout, or the election
     is paused
  4  no majority of the Redis nodes answered
  7  refused; stderr has the reason`

func (a *app) resignCommand() *cobra.Command {
	var o steerFlags
	cmd := &cobra.Command{
		Use:   "resign NAME",
		Short: "Make the leader step down, and wait for the next leader",
		Long: `Make the leader of the election NAME step down: it stops its work, releases the
lock, and campaigns again after its cool-down. Waits until another candidate
leads, and prints how long there was no leader.` + steerCodes,
		Example:           `  mandate resign poller --reason "kernel update on worker-3"`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: a.completeElections,
		PreRunE: func(cmd *cobra.Command, args []string) error {
			a.checkReason(o.reason)
			return a.observer(cmd, args)
		},
		RunE: a.steer(&o, func(ctx context.Context, el *elector.Election) (elector.Handover, error) {
			return el.StepDown(ctx, o.reason)
		}),
	}
	o.add(a, cmd)
	cmd.Flags().StringVar(&o.reason, "reason", "", "`TEXT` for the history")
	return cmd
}

func (a *app) transferCommand() *cobra.Command {
	var o steerFlags
	var to string
	cmd := &cobra.Command{
		Use:   "transfer NAME --to ID",
		Short: "Hand over to a named candidate, and wait for it",
		Long: `Make the leader of the election NAME hand over to the candidate ID, and wait
until that candidate leads. If ID is not a candidate or not healthy, nothing
happens; if it fails meanwhile, any candidate may lead after a quarter of the
lease.` + steerCodes,
		Example:           `  mandate transfer poller --to worker-2`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: a.completeElections,
		PreRunE: func(cmd *cobra.Command, args []string) error {
			if to == "" {
				a.problem("--to is missing: give the id of a candidate; mandate candidates NAME lists them")
			}
			return a.observer(cmd, args)
		},
		RunE: a.steer(&o, func(ctx context.Context, el *elector.Election) (elector.Handover, error) {
			return el.Transfer(ctx, to)
		}),
	}
	o.add(a, cmd)
	cmd.Flags().StringVar(&to, "to", "", "`ID` of the candidate that should lead (required)")
	_ = cmd.RegisterFlagCompletionFunc("to", a.completeCandidates)
	return cmd
}

type steerFlags struct {
	asJSON  bool
	reason  string
	timeout time.Duration
}

// checkReason keeps to what fits into the history, before anything is asked.
func (a *app) checkReason(reason string) {
	if most := 500; len(reason) > most {
		a.problem("--reason is %d bytes long: at most %d", len(reason), most)
	}
}

func (o *steerFlags) add(a *app, cmd *cobra.Command) {
	a.duration(cmd.Flags(), &o.timeout, "timeout", 30*time.Second, time.Millisecond, "how long to wait for the next leader")
	cmd.Flags().BoolVar(&o.asJSON, "json", false, "print one JSON object")
}

// handoverJSON is what resign and transfer print with --json.
type handoverJSON struct {
	From  elector.Leader  `json:"from"`
	To    *elector.Leader `json:"to"`
	Gap   time.Duration   `json:"gap_ns"`
	Error string          `json:"error,omitempty"`
}

// steer makes the RunE of a command that moves the leadership.
func (a *app) steer(o *steerFlags, do func(context.Context, *elector.Election) (elector.Handover, error)) func(*cobra.Command, []string) error {
	return a.onElection(func(parent context.Context, el *elector.Election) error {
		ctx, cancel := context.WithTimeout(parent, o.timeout)
		defer cancel()
		h, err := do(ctx, el)
		if perr := a.printHandover(h, err, o.asJSON); perr != nil {
			return perr
		}
		if (errors.Is(err, elector.ErrNoLeader) || errors.Is(err, elector.ErrRefused)) && unknown(parent, el) {
			err = fmt.Errorf("%w; %s", err, noTrace)
		}
		return steerError(err)
	})
}

// unknown tells whether nothing was ever heard of this election.
func unknown(ctx context.Context, el *elector.Election) bool {
	st, err := el.Status(ctx)
	return err == nil && traceless(st)
}

func (a *app) printHandover(h elector.Handover, err error, asJSON bool) error {
	if asJSON {
		out := handoverJSON{From: h.From, Gap: h.Gap}
		if h.To.Token != 0 {
			out.To = &h.To
		}
		if err != nil {
			out.Error = withoutPackage(err)
		}
		return printJSON(a.stdout, out)
	}
	if h.To.Token == 0 {
		return nil
	}
	gap := ""
	if h.Gap > 0 {
		gap = fmt.Sprintf(", %.1f ms after %s had stopped", float64(h.Gap)/1e6, printable(h.From.Candidate))
	}
	_, werr := fmt.Fprintf(a.stdout, "%s leads, token %d%s\n", printable(h.To.Candidate), h.To.Token, gap)
	return werr
}

func steerError(err error) error {
	if err == nil {
		return nil
	}
	short := errors.New(strings.TrimPrefix(withoutPackage(err), "refused: "))
	switch {
	case errors.Is(err, elector.ErrNoLeader):
		return &exitError{code: exitNoLeader, err: short}
	case errors.Is(err, elector.ErrRefused):
		return &exitError{code: exitRefused, err: short}
	}
	return err
}
