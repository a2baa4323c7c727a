package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/elector"
)

func (a *app) pauseCommand() *cobra.Command {
	var d time.Duration
	var reason string
	cmd := &cobra.Command{
		Use:   "pause NAME",
		Short: "Keep anybody new from being elected",
		Long: `Pause the election NAME: nobody new is elected, until it is resumed, or for the
time of --for. A leader that is there goes on as long as it can renew; when it
stops, nobody leads. The pause is kept in Redis, so restarts don't end it.

Exit codes
  0  paused on all nodes
  1  paused, but not on all nodes; stderr says where not
  2  flags or arguments that can't work
  4  no majority of the Redis nodes could be told`,
		Example:           `  mandate pause poller --for 1h --reason "schema migration"`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: a.completeElections,
		RunE: func(cmd *cobra.Command, args []string) error {
			q, _, err := a.observer(args)
			if err != nil {
				return err
			}
			defer func() { _ = q.Close() }()
			return a.told(q.Pause(cmd.Context(), a.prefix, args[0], d, reason), "%s is paused: nobody new is elected%s", args[0], forHowLong(d))
		},
	}
	a.duration(cmd.Flags(), &d, "for", 0, time.Second, "end the pause by itself after this time (default: until resume)")
	cmd.Flags().StringVar(&reason, "reason", "", "`TEXT` that status and the candidates' logs show")
	return cmd
}

func forHowLong(d time.Duration) string {
	if d == 0 {
		return " until it is resumed"
	}
	return fmt.Sprintf(" for %v", d)
}

func (a *app) resumeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "resume NAME",
		Short: "End a pause",
		Long: `End the pause of the election NAME; it is no error when there was none.

Exit codes are those of pause.`,
		Example:           `  mandate resume poller`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: a.completeElections,
		RunE: func(cmd *cobra.Command, args []string) error {
			q, _, err := a.observer(args)
			if err != nil {
				return err
			}
			defer func() { _ = q.Close() }()
			return a.told(q.Resume(cmd.Context(), a.prefix, args[0]), "%s goes on%s", args[0], "")
		},
	}
}

// told prints what has been done, unless no majority took part.
func (a *app) told(err error, done string, args ...any) error {
	if errors.Is(err, elector.ErrUnreachable) {
		return unreachable(err)
	}
	if _, perr := fmt.Fprintf(a.stdout, done+"\n", args...); perr != nil {
		return perr
	}
	if err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "elector: "))
	}
	return nil
}
