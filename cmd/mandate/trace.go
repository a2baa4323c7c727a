package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/elector/shard"
)

// statusTimeout keeps status below two seconds, whatever Redis does.
const statusTimeout = 1700 * time.Millisecond

// noTrace is reported of an election that neither the nodes nor a candidate knows.
const noTrace = "no trace of it on these nodes: is the name right?"

// majorityAnswered reports whether the leader is known: a majority of the nodes was read.
func majorityAnswered(st elector.Status) bool {
	reachable := 0
	for _, n := range st.Nodes {
		if n.Reachable {
			reachable++
		}
	}
	return 2*reachable > len(st.Nodes)
}

// traceless reports whether a majority answered, and none knows of any leader, now or
// before, nor of a candidate that has just come: if none answers, either, it is likely that
// the name is wrong.
func traceless(st elector.Status) bool {
	return majorityAnswered(st) && !st.Traced()
}

// unknownElection reports whether an election is traceless, and no candidate answers: those
// that have never been able to lead leave no trace.
func unknownElection(ctx context.Context, el *elector.Election, st elector.Status) bool {
	if !traceless(st) {
		return false
	}
	roll, _ := el.Candidates(ctx) // without it the nodes alone decide
	return len(roll) == 0
}

// namesGroup reports whether there are shards of a group of that name.
func namesGroup(ctx context.Context, q *elector.Quorum, name string) bool {
	names, _ := q.Elections(ctx) // without them the name is unknown
	_, groups := shard.Split(names)
	return groups[name] != nil
}

// aGroup is what to type in place of a command about an election whose name a group has.
func aGroup(name string, given nextFlags) string {
	return fmt.Sprintf("%s is a group of shards, not an election: %s", output.Printable(name), given.command("shards", name))
}

// explainGroups adds to an error about an unknown election that its name is that of a group:
// at night both are just a name, and "is the name right?" would send people the wrong way.
func (a *app) explainGroups(run func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		err := run(cmd, args)
		var exit *exitError
		if !errors.As(err, &exit) || exit.code != exitNoLeader || exit.quiet || len(args) != 1 || a.election == nil || a.election.Name() != args[0] {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), statusTimeout)
		defer cancel()
		name := a.election.Name()
		if st, serr := a.election.Status(ctx); serr != nil || !traceless(st) || !namesGroup(ctx, a.quorum, name) {
			return err
		}
		return &exitError{code: exit.code, err: errors.New(aGroup(name, a.given))}
	}
}
