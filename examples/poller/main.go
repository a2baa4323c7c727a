// Command poller is the use case from which this project originates: a legacy application writes
// events into a table, workers handle them from a queue, and only the elected worker may feed the
// queue from the table. See README.md.
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
	root := newRoot(&app{stdin: stdin, stdout: stdout, stderr: stderr})
	root.SetArgs(append([]string{}, args...)) // for nil, cobra would use the arguments of the process
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintf(stderr, "poller: %s\n", strings.ReplaceAll(err.Error(), "\n", "\npoller: "))
		return 1
	}
	return 0
}

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "poller",
		Short: "One elected worker feeds the queue from a table; all workers consume it",
		Long: `One elected worker feeds the queue from a legacy table; all workers consume it.
Without a command: all of it in one go, on an embedded Redis and SQLite.`,
		Args: cobra.NoArgs, SilenceErrors: true, SilenceUsage: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return a.prepare(cmd) },
		RunE:              func(cmd *cobra.Command, _ []string) error { return a.demo(cmd.Context()) },
	}
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	f := root.PersistentFlags()
	f.StringArrayVar(&a.redis, "redis", nil, "`URL` of a Redis of the election; repeat it for a quorum of 3 or 5\n(env MANDATE_REDIS, comma separated; default redis://127.0.0.1:6379)")
	f.StringVar(&a.queue, "queue", os.Getenv("POLLER_QUEUE"), "`URL` of the Redis that holds the queue (env POLLER_QUEUE; default: the first of --redis)")
	f.StringVar(&a.db, "db", os.Getenv("POLLER_DB"), "the legacy database: an SQLite file, or postgres://... (env POLLER_DB; default poller.db)")
	f.StringVar(&a.election, "election", "poller", "the election's name")
	f.StringVar(&a.logLevel, "log-level", "info", "debug, info, warn or error")
	f.BoolVar(&a.withStdin, "exit-with-stdin", false, "end when standard input does, so that no child outlives its parent")
	_ = f.MarkHidden("exit-with-stdin") // fails only for unknown flags
	root.AddCommand(a.workCommand(), a.produceCommand(), a.verifyCommand(), healthyCommand())
	return root
}
