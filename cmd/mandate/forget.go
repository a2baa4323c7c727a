package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
)

// forgetTimeout bounds a roll call and two requests.
const forgetTimeout = 10 * time.Second

func (a *app) forgetCommand() *cobra.Command {
	var yes, asJSON bool
	cmd := &cobra.Command{
		Use:   "forget NAME",
		Short: "Remove an election that is no longer used",
		Long: `Remove everything that Redis keeps of the election NAME: its counter, its
history, a pause. It is no longer listed then. First stop all its candidates: it
is refused while one of them answers or is subscribed, or while a node holds a
lock. All nodes must answer: nothing is removed while one does not.

Do not forget an election while a resource still compares its fencing tokens: if
the name is used again, the tokens begin at the wall clock of the first leader.
The Redis user needs the rights of a candidate (docs/redis.md).

On a terminal it asks first; --yes answers in advance.

Exit codes
  0  forgotten
  1  the question was not answered with yes; or a node did not answer (stderr
     names it, and says whether anything was removed): try again
  2  invalid flags or arguments
  3  Redis knows nothing of this name
  4  no majority of the Redis nodes answered
  7  refused; stderr has the reason`,
		Example:           `  mandate forget poller-test`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: a.completeElections,
		PreRunE:           a.openElection,
	}
	cmd.RunE = a.onElection(func(ctx context.Context, el *elector.Election) error {
		unknown, err := nothingKept(ctx, el)
		switch {
		case err != nil:
			return err
		case unknown:
			return &exitError{code: exitNoLeader, err: fmt.Errorf("%s: %s", el.Name(), noTrace)}
		case !yes && !inUse(ctx, el): // otherwise Forget refuses: do not ask for confirmation first
			question := fmt.Sprintf("Remove the counter and the history of %s under the prefix %s?", el.Name(), a.prefix)
			if err := a.confirm(cmd, question); err != nil {
				return err
			}
		}
		ctx, cancel := context.WithTimeout(ctx, forgetTimeout)
		defer cancel()
		if err := el.Forget(ctx); err != nil {
			return err
		}
		if asJSON {
			return output.JSON(a.stdout, map[string]any{"election": el.Name(), "forgotten": true})
		}
		return output.New(a.stdout).Lines([]string{el.Name() + " is forgotten"})
	})
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// inUse reports whether candidates answer.
func inUse(ctx context.Context, el *elector.Election) bool {
	ctx, cancel := context.WithTimeout(ctx, forgetTimeout)
	defer cancel()
	all, err := el.Candidates(ctx)
	return err == nil && len(all) > 0
}

// nothingKept reports whether Redis keeps nothing that forget would remove and no candidate
// answers: the name is probably wrong.
func nothingKept(ctx context.Context, el *elector.Election) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, forgetTimeout)
	defer cancel()
	st, err := el.Status(ctx)
	if err != nil || st.Paused || !traceless(st) || !allAnswered(st) { // a node that did not answer may know more
		return false, err
	}
	if terms, err := el.History(ctx, 1); err != nil || len(terms) > 0 {
		return false, err
	}
	return unknownElection(ctx, el, st), nil
}
