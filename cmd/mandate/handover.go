package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
)

// handOver runs a request that moves the leadership, within the time-out, and prints the outcome.
// from is the present leader; without one the request itself fails.
func handOver(c *connection, ctx context.Context, o *actFlags, do func(ctx context.Context, el *elector.Election, from elector.Leader) (elector.Handover, error)) error {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	el := c.election
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
	if perr := printHandover(c, h, err, o.asJSON); perr != nil {
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

func printHandover(c *connection, h elector.Handover, err error, asJSON bool) error {
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
		return output.JSON(c.stdout, out)
	}
	line := fmt.Sprintf("%s leads, token %d", h.To.Candidate, h.To.Token)
	switch {
	case h.To.Token == 0 && err == nil:
		line = h.From.Candidate + " has stepped down; paused: no leader until " + c.given.command("resume", c.election.Name())
	case h.To.Token == 0:
		return nil
	case h.To.Token == h.From.Token:
		line = fmt.Sprintf("%s leads already, token %d", h.To.Candidate, h.To.Token)
	}
	return output.New(c.stdout).Lines([]string{output.Printable(line)})
}
