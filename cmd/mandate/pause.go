package main

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
)

func pauseCommand(c *connection) *cobra.Command {
	var o actFlags
	var d time.Duration
	cmd := &cobra.Command{
		Use:   "pause NAME",
		Short: "Prevent the election of new leaders",
		Long: `Pause the election NAME: no new leader is elected until it is resumed, or for
the time of --for. The current leader remains leader while it can renew; when
its term ends there is no leader. The pause is kept in Redis and survives
restarts. A pause of your own is replaced; one by another operator only with
--force. With --force an election can be paused before its first start.`,
		Example: `  mandate pause poller --for 1h --reason "schema migration"`,
		PreRunE: o.open(c),
	}
	cmd.RunE = c.onElection(func(ctx context.Context, el *elector.Election) error {
		done := pauseJSON{Election: el.Name(), Paused: true, ForMS: output.MS(d), length: d, Reason: o.reason, By: o.by}
		st, err := el.Status(ctx)
		if err == nil && !st.Paused && unknownElection(ctx, el, st) {
			if _, groups := c.names(ctx, cmd); !o.force || slices.Contains(groups, el.Name()) {
				return &exitError{code: exitNoLeader, err: errors.New(noTrace + " To pause it before its first start, use --force")}
			}
		}
		if st.Leader != nil {
			done.leader = st.Leader.Candidate
		}
		if err := o.mayEnd(st, "replace"); err != nil {
			return err
		}
		err = el.Pause(ctx, d, o.reason)
		if st.Paused {
			done.Replaced = pausedBy(st)
		}
		return printPause(c.terminal, err, done, o.asJSON)
	})
	c.duration(cmd.Flags(), &d, "for", 0, time.Second, "end the pause automatically after this time (default: until resume)")
	o.add(cmd, "`TEXT` that status and the candidates' logs show", "replace another operator's pause; pause also an unknown election")
	return cmd
}

// mayEnd returns why this operator must not end a pause, or replace it: it protects the work of another one.
func (o *actFlags) mayEnd(st elector.Status, what string) error {
	if !st.Paused || o.force || st.PauseBy == o.by {
		return nil
	}
	return &exitError{code: exitRefused, err: errors.New("paused already " + pausedBy(st) + "; to " + what + " that pause, use --force")}
}

// pauseJSON is what pause and resume print with --json.
type pauseJSON struct {
	Election string  `json:"election"`
	Paused   bool    `json:"paused"`             // now
	ForMS    float64 `json:"for_ms,omitempty"`   // 0: until it is resumed
	Reason   string  `json:"reason,omitempty"`   // as the operator gave it
	By       string  `json:"by,omitempty"`       // the operator who paused or resumed it
	Replaced string  `json:"replaced,omitempty"` // the previous pause: since when, by whom and why
	Error    string  `json:"error,omitempty"`    // of the nodes that did not store it

	length time.Duration
	leader string // the candidate that remains leader in spite of the pause
	idle   bool   // there was no pause to end
}

func (p pauseJSON) String() string {
	switch {
	case p.idle:
		return p.Election + " was not paused"
	case !p.Paused:
		if p.Replaced == "" {
			return p.Election + ": election resumed"
		}
		return p.Election + ": election resumed; it was paused " + output.Printable(p.Replaced)
	}
	until, on := "until it is resumed", ""
	if p.length != 0 {
		until = "for " + p.length.String()
	}
	if p.leader != "" {
		on = "; " + output.Printable(p.leader) + " remains leader"
	}
	if p.Replaced != "" {
		on += "; it replaces a pause " + output.Printable(p.Replaced)
	}
	return p.Election + " is paused: no new leader will be elected " + until + on
}

// printPause prints what was done, unless no majority of the nodes did it.
func printPause(t *terminal, err error, done pauseJSON, asJSON bool) error {
	if errors.Is(err, elector.ErrUnreachable) {
		return err
	}
	if err != nil {
		done.Error = err.Error()
	}
	return cmp.Or(t.print(asJSON, done, func(p *output.Printer) []string { return p.Prose(done.String()) }), err)
}

func resumeCommand(c *connection) *cobra.Command {
	var o actFlags
	cmd := &cobra.Command{
		Use:   "resume NAME",
		Short: "End a pause",
		Long: `End the pause of the election NAME; one by another operator, whose work it may
protect, only with --force. If there is none, that is not an error.`,
		Example: `  mandate resume poller`,
		PreRunE: o.open(c),
	}
	cmd.RunE = c.onElection(func(ctx context.Context, el *elector.Election) error {
		done := pauseJSON{Election: el.Name()}
		if st, err := el.Status(ctx); err == nil {
			if !st.Paused && unknownElection(ctx, el, st) {
				return &exitError{code: exitNoLeader, err: errors.New(noTrace)}
			}
			if err := o.mayEnd(st, "end"); err != nil {
				return err
			}
			done.idle = !st.Paused && !slices.ContainsFunc(st.Nodes, func(n elector.NodeStatus) bool { return !n.Reachable }) // else a node may know more
			if st.Paused {
				done.Replaced = pausedBy(st)
			}
		}
		done.By = o.by
		return printPause(c.terminal, el.Resume(ctx), done, o.asJSON)
	})
	o.add(cmd, "", "end another operator's pause")
	return cmd
}
