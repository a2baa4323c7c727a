package main

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/elector"
)

// completeWithin bounds what the Tab key may take: a shell that hangs is worse
// than one that offers nothing.
const completeWithin = time.Second

// completeElections offers the names of the elections.
func (a *app) completeElections(cmd *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	redis.SetLogger(redisLog{slog.New(slog.DiscardHandler)}) // prepare does not run for completions
	a.choosePrefix()
	q, err := elector.Open(a.urls()...)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	defer func() { _ = q.Close() }()
	ctx, cancel := context.WithTimeout(cmd.Context(), completeWithin)
	defer cancel()
	names, _ := q.Elections(ctx, a.prefix) // the shell has no place for errors
	var fit []string
	for _, name := range names {
		if strings.HasPrefix(name, begin) {
			fit = append(fit, name)
		}
	}
	return fit, cobra.ShellCompDirectiveNoFileComp
}

// completeElectionFlag offers them for --election.
func (a *app) completeElectionFlag(cmd *cobra.Command) {
	// The only error is a flag of another name, which any test would show.
	_ = cmd.RegisterFlagCompletionFunc("election", func(cmd *cobra.Command, _ []string, begin string) ([]string, cobra.ShellCompDirective) {
		return a.completeElections(cmd, nil, begin)
	})
}
