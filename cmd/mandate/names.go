package main

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/redis/go-redis/v9/logging"
	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/elector/shard"
)

// completeNames offers the names that the command takes: those of groups to shards, those of elections to others.
func (c *connection) completeNames(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	c.log = slog.New(slog.DiscardHandler)
	logging.Disable()
	_ = c.fromEnvironment(cmd.Flag("prefix"))
	slices.Sort(c.redis)
	c.redis = slices.Compact(c.redis) // cobra has parsed the flags twice
	if len(args) > 0 || c.connect() != nil || c.usage() != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names, _ := c.names(cmd.Context(), cmd)
	return names, cobra.ShellCompDirectiveNoFileComp
}

// names returns the names that the command takes, as far as they could be read, and the groups among all.
func (c *connection) names(ctx context.Context, cmd *cobra.Command) (names, groups []string) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	all, _ := c.quorum.Elections(ctx)
	names, shards := shard.Split(all)
	slices.Sort(names)
	if groups = slices.Sorted(maps.Keys(shards)); cmd.Name() == "shards" {
		names = groups
	}
	return names, groups
}

// groupAdvice returns what to type if the name is that of a group, and no election.
func (c *connection) groupAdvice(ctx context.Context, cmd *cobra.Command) string {
	name := cmd.Flags().Arg(0)
	if cmd.ValidArgsFunction == nil || name == "" || c.quorum == nil {
		return ""
	}
	if names, groups := c.names(ctx, cmd); slices.Contains(names, name) || !slices.Contains(groups, name) {
		return ""
	}
	return name + " is a group of shards, and no election: type " + c.given.command("shards", name) + ", or " + c.given.command("ls", name+allShards)
}
