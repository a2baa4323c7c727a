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

const handoverCodes = `

Exit codes
  0  another candidate leads
  2  invalid flags or arguments
  3  there is no leader, or no new leader within --timeout, or the election
     is paused
  4  no majority of the Redis nodes answered
  7  refused; stderr has the reason`

// handoverFlags are those of resign and transfer.
type handoverFlags struct {
	asJSON  bool
	reason  string
	timeout time.Duration
}

func (o *handoverFlags) add(a *app, cmd *cobra.Command) {
	a.duration(cmd.Flags(), &o.timeout, "timeout", 30*time.Second, time.Millisecond, "how long to wait for the next leader")
	cmd.Flags().BoolVar(&o.asJSON, "json", false, "print one JSON object")
}

// maxReason is what fits into the history.
const maxReason = 500

func (a *app) checkReason(reason string) {
	if len(reason) > maxReason {
		a.problem("--reason is %d bytes long: at most %d", len(reason), maxReason)
	}
}

// handoverJSON is what resign and transfer print with --json.
type handoverJSON struct {
	From  elector.Leader  `json:"from"`
	To    *elector.Leader `json:"to"`
	Gap   time.Duration   `json:"gap_ns"`
	Error string          `json:"error,omitempty"`
}

// handOver makes the RunE of a command that moves the leadership.
func (a *app) handOver(o *handoverFlags, do func(context.Context, *elector.Election) (elector.Handover, error)) func(*cobra.Command, []string) error {
	return a.onElection(func(parent context.Context, el *elector.Election) error {
		ctx, cancel := context.WithTimeout(parent, o.timeout)
		defer cancel()
		h, err := do(ctx, el)
		if perr := a.printHandover(h, err, o.asJSON); perr != nil {
			return perr
		}
		if errors.Is(err, elector.ErrNoLeader) || errors.Is(err, elector.ErrRefused) {
			if st, serr := el.Status(parent); serr == nil && traceless(st) {
				err = &exitError{code: codeOf(err), err: errors.New(elector.Problem(err) + "; " + noTrace)}
			}
		}
		return err
	})
}

func (a *app) printHandover(h elector.Handover, err error, asJSON bool) error {
	if asJSON {
		out := handoverJSON{From: h.From, Gap: h.Gap}
		if h.To.Token != 0 {
			out.To = &h.To
		}
		if err != nil {
			out.Error = elector.Problem(err)
		}
		return output.JSON(a.stdout, out)
	}
	if h.To.Token == 0 {
		return nil
	}
	gap := ""
	if h.Gap > 0 {
		gap = fmt.Sprintf(", %.1f ms after %s had stopped", float64(h.Gap)/1e6, output.Printable(h.From.Candidate))
	}
	_, werr := fmt.Fprintf(a.stdout, "%s leads, token %d%s\n", output.Printable(h.To.Candidate), h.To.Token, gap)
	return werr
}
