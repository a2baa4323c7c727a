package main

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/redis/go-redis/v9/logging"
	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/output"
	"github.com/mandate-dev/mandate/elector"
)

// completeWithin bounds how long a completion may take: a shell that hangs is worse than one that
// offers nothing.
const completeWithin = time.Second

// completeElections offers the names of the elections.
func (a *app) completeElections(cmd *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.offer(cmd, begin, func(ctx context.Context, q *elector.Quorum) []string {
		names, _ := q.Elections(ctx) // a shell completion has no place for errors
		return names
	})
}

// completeCandidates offers the ids of the candidates that could take over.
func (a *app) completeCandidates(cmd *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
	if len(args) != 1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.offer(cmd, begin, func(ctx context.Context, q *elector.Quorum) (ids []string) {
		el, err := q.Election(args[0])
		if err != nil {
			return nil
		}
		all, _ := el.Candidates(ctx) // as above
		for _, c := range all {
			if c.Role == elector.RoleFollowing {
				ids = append(ids, c.ID)
			}
		}
		return ids
	})
}

// offer reads words from Redis and offers those that begin with what was typed.
func (a *app) offer(cmd *cobra.Command, begin string, read func(context.Context, *elector.Quorum) []string) ([]string, cobra.ShellCompDirective) {
	logging.Disable() // prepare, which replaces this logger, does not run for completions
	a.log = slog.New(slog.DiscardHandler)
	a.choosePrefix()
	q, err := elector.Open(a.urls()...)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	defer func() { _ = q.Close() }()
	ctx, cancel := context.WithTimeout(cmd.Context(), completeWithin)
	defer cancel()
	var fit []string
	for _, word := range read(ctx, q.Namespace(a.prefix)) {
		if strings.HasPrefix(word, begin) && word == output.Printable(word) {
			fit = append(fit, word)
		}
	}
	return fit, cobra.ShellCompDirectiveNoFileComp
}

// completeElectionFlag offers the elections as values of --election.
func (a *app) completeElectionFlag(cmd *cobra.Command) {
	// The only error is an unknown flag, which any test would show.
	_ = cmd.RegisterFlagCompletionFunc("election", func(cmd *cobra.Command, _ []string, begin string) ([]string, cobra.ShellCompDirective) {
		return a.completeElections(cmd, nil, begin)
	})
}
