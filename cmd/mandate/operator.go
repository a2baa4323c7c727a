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
func (o *actFlags) open(c *connection) func(cmd *cobra.Command, args []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if len(o.reason) > maxReason {
			c.problem("--reason is %d bytes long: at most %d", len(o.reason), maxReason)
		}
		o.by = operator(c.terminal, o.by)
		err := c.openElection(cmd, args)
		if err == nil {
			c.election = c.election.As(o.by)
		}
		return err
	}
}

// operator returns the name of the operator: the flag, or else the environment variable, or else
// the user and host of this process.
func operator(t *terminal, by string) string {
	from := "--by"
	if by == "" {
		by, from = t.variable("MANDATE_BY"), "MANDATE_BY"
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
		t.problem("%s is %.120q: give a name of at most %d bytes, without control characters", from, by, maxBy)
	}
	return by
}

// handOver runs a request that moves the leadership, within the time-out, and prints the outcome.
// from is the present leader; without one the request itself fails.
func handOver(ctx context.Context, c *connection, o *actFlags, do func(ctx context.Context, el *elector.Election, from elector.Leader) (elector.Handover, error)) error {
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
