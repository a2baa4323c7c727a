package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
)

const handoverCodes = `

On a terminal it asks first; --yes answers in advance.

Exit codes
  0  another candidate leads
  1  the question was not answered with yes
  2  invalid flags or arguments
  3  there is no leader, or no new leader within --timeout, or the election
     is paused
  4  no majority of the Redis nodes answered
  7  refused; stderr has the reason`

// handoverFlags are the flags of resign and transfer.
type handoverFlags struct {
	asJSON  bool
	yes     bool
	force   bool
	timeout time.Duration
	by      string
}

func (o *handoverFlags) add(a *app, cmd *cobra.Command) {
	a.duration(cmd.Flags(), &o.timeout, "timeout", 30*time.Second, time.Millisecond, "how long to wait for the next leader")
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&o.asJSON, "json", false, "print one JSON object")
	a.byFlag(cmd, &o.by)
}

// maxReason and maxBy together fit into an entry of the history.
const (
	maxReason = 380
	maxBy     = 100
)

func (a *app) checkReason(reason string) {
	if len(reason) > maxReason {
		a.problem("--reason is %d bytes long: at most %d", len(reason), maxReason)
	}
}

// byFlag adds the flag for the name of the operator.
func (a *app) byFlag(cmd *cobra.Command, by *string) {
	cmd.Flags().StringVar(by, "by", "", "`WHO` requests it, for the history and the status (env MANDATE_BY; default USER@HOST)")
}

// operator returns the name of the operator: the flag, or else the environment variable, or else
// the user and host of this process.
func (a *app) operator(by string) string {
	from := "--by"
	if by == "" {
		by, from = os.Getenv("MANDATE_BY"), "MANDATE_BY"
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

// handover is a change of the leader that an operator requests.
type handover struct {
	// question returns what to ask the operator before the handover to one of the able candidates;
	// empty: nothing. refusal is why there are none. The error errLeadsAlready means that nothing
	// is left to do.
	question func(leader elector.Leader, able []elector.CandidateStatus, refusal error) (string, error)
	do       func(context.Context, *elector.Election) (elector.Handover, error)
}

var errLeadsAlready = errors.New("leads already")

// handOver makes the RunE of a command that moves the leadership.
func (a *app) handOver(o *handoverFlags, move handover) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		el := a.election
		h, question, err := o.prepare(cmd.Context(), el, move)
		if err == nil && question != "" && !o.yes {
			err = a.confirm(cmd, question)
		}
		if err == nil {
			ctx, cancel := context.WithTimeout(cmd.Context(), o.timeout)
			defer cancel()
			h, err = move.do(ctx, el.As(o.by))
		}
		already := errors.Is(err, errLeadsAlready)
		if already {
			h.To, err = h.From, nil
		}
		if perr := a.printHandover(h, already, err, o.asJSON); perr != nil {
			return perr
		}
		if errors.Is(err, elector.ErrNoLeader) || errors.Is(err, elector.ErrRefused) {
			st, serr := el.Status(cmd.Context())
			switch {
			case serr != nil:
			case st.Paused && st.Leader == nil:
				err = &exitError{code: exitNoLeader, err: errors.New(pausedText(elector.Problem(err), st.Pause) + "; to end that: " + a.given.command("resume", el.Name()))}
			case unknownElection(cmd.Context(), el, st):
				err = &exitError{code: exitNoLeader, err: errors.New(elector.Problem(err) + "; " + noTrace)}
			case st.Leader == nil:
				err = &exitError{code: codeOf(err), err: errors.New(elector.Problem(err) + "; for the reason: " + a.given.command("status", el.Name()))}
			}
		}
		return err
	}
}

// pausedText describes the failure of a request while the election is paused. The problem names the
// pause already if a step-down was left without a new leader because of it.
func pausedText(problem, pause string) string {
	if pause != "" && strings.Contains(problem, pause) {
		return problem
	}
	return problem + ": the election is paused (" + pause + ")"
}

// prepare finds the candidates that could lead next. If there is no leader it returns no error: the
// request itself will then fail.
func (o *handoverFlags) prepare(ctx context.Context, el *elector.Election, move handover) (h elector.Handover, question string, err error) {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	st, err := el.Status(ctx)
	if err != nil || st.Leader == nil {
		return h, "", err
	}
	h.From = *st.Leader
	if o.force {
		return h, fmt.Sprintf("Make %s step down from %s without checking who could lead then?", h.From.Candidate, el.Name()), nil
	}
	able, err := el.Successors(ctx)
	switch {
	case err == nil, errors.Is(err, elector.ErrRefused):
		question, err = move.question(h.From, able, err)
	case errors.Is(err, elector.ErrNoLeader): // the leader has just stepped down
		err = nil
	}
	return h, question, err
}

// handoverJSON is what resign and transfer print with --json.
type handoverJSON struct {
	From  *elector.Leader `json:"from"` // null: there was none
	To    *elector.Leader `json:"to"`
	Gap   float64         `json:"gap_ms"`
	Error string          `json:"error,omitempty"`
}

func (a *app) printHandover(h elector.Handover, already bool, err error, asJSON bool) error {
	if asJSON {
		out := handoverJSON{Gap: output.MS(h.Gap)}
		if h.From.Token != 0 {
			out.From = &h.From
		}
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
	line := fmt.Sprintf("%s leads, token %d", h.To.Candidate, h.To.Token)
	switch {
	case already:
		line = fmt.Sprintf("%s leads already, token %d", h.To.Candidate, h.To.Token)
	case h.Gap > 0:
		line += fmt.Sprintf(", %.1f ms after %s had stopped", float64(h.Gap)/1e6, h.From.Candidate)
	}
	return output.New(a.stdout).Lines([]string{output.Printable(line)})
}

// confirm asks the operator at the terminal. Without a terminal, as in a script, it does not ask.
func (a *app) confirm(cmd *cobra.Command, question string) error {
	if output.Terminal(os.Stdin) == nil || output.Terminal(a.stderr) == nil {
		return nil
	}
	lines := output.New(a.stderr).Prose(cmd.CommandPath() + ": " + output.Printable(question) + " [y/N]")
	fmt.Fprint(a.stderr, strings.Join(lines, "\n")+" ")
	answer, err := bufio.NewReader(os.Stdin).ReadString('\n')
	switch {
	case errors.Is(err, io.EOF): // after Ctrl-D the cursor is still behind the question
		fmt.Fprintln(a.stderr)
	case err != nil:
		return err
	}
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return &exitError{code: exitFailed, err: errors.New("not confirmed: nothing was done")}
	}
	return nil
}
