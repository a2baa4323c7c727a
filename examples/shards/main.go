// Command shards is an example of work that is split among all replicas: tenants belong to shards,
// each shard has one owner at a time, and only the owner writes the invoices of its tenants. See
// README.md.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

func main() { os.Exit(execute(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// execute is main without os.Exit: it returns the exit code.
func execute(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal kills the process
	root := newRoot(&app{stdin: stdin, stdout: stdout, stderr: stderr})
	root.SetArgs(append([]string{}, args...)) // for nil, cobra would use the arguments of the process
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintf(stderr, "shards: %s\n", strings.ReplaceAll(err.Error(), "\n", "\nshards: "))
		return 1
	}
	return 0
}

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "shards",
		Short: "Tenants' invoices, written by all members of a group, each tenant's by one at a time",
		Long: `Tenants' invoices, written by all members of a group, each tenant's by one at a time.
Without a command: all of it in one go, on an embedded Redis and SQLite.`,
		Args: cobra.NoArgs, SilenceErrors: true, SilenceUsage: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return a.prepare(cmd) },
		RunE:              func(cmd *cobra.Command, _ []string) error { return a.demo(cmd.Context()) },
	}
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	f := root.PersistentFlags()
	f.StringArrayVar(&a.redis, "redis", nil, "`URL` of a Redis; repeat it for a quorum of 3 or 5\n(env MANDATE_REDIS, comma separated; default redis://127.0.0.1:6379)")
	f.StringVar(&a.db, "db", os.Getenv("SHARDS_DB"), "the database: an SQLite file, or postgres://... (env SHARDS_DB; default invoices.db)")
	f.StringVar(&a.logLevel, "log-level", "info", "debug, info, warn or error")
	f.BoolVar(&a.withStdin, "exit-with-stdin", false, "end when standard input does, so that no child outlives its parent")
	_ = f.MarkHidden("exit-with-stdin") // fails only for unknown flags
	root.AddCommand(a.workCommand(), a.sellCommand(), a.verifyCommand())
	return root
}
