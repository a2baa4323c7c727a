// Command shards is work that is split over all replicas: tenants belong to shards, each
// shard has one owner at a time, and only that one writes the invoices of its tenants.
// See README.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9/logging"
	"github.com/spf13/cobra"
)

func main() { os.Exit(execute(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// app is what all commands share.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	log            *slog.Logger

	redis     []string
	db        string
	logLevel  string
	withStdin bool
}

// execute is main without its process: it returns the exit code.
func execute(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal kills
	root := newRoot(&app{stdin: stdin, stdout: stdout, stderr: stderr})
	root.SetArgs(args)
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
	_ = f.MarkHidden("exit-with-stdin") // fails for unknown flags only
	root.AddCommand(a.workCommand(), a.sellCommand(), a.verifyCommand())
	return root
}

func (a *app) prepare(cmd *cobra.Command) error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(a.logLevel)); err != nil {
		return fmt.Errorf("--log-level %q: use debug, info, warn or error", a.logLevel)
	}
	a.log = slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: level}))
	logging.Disable() // go-redis prints every failed dial; the electors report what matters
	if a.db == "" {
		a.db = "invoices.db"
	}
	if a.withStdin {
		ctx, cancel := context.WithCancelCause(cmd.Context())
		go func() {
			_, _ = io.Copy(io.Discard, a.stdin)
			cancel(errors.New("the parent has ended"))
		}()
		cmd.SetContext(ctx)
	}
	return nil
}

func (a *app) urls() []string {
	if len(a.redis) > 0 {
		return a.redis
	}
	if env := os.Getenv("MANDATE_REDIS"); env != "" {
		return strings.Split(env, ",")
	}
	return []string{"redis://127.0.0.1:6379"}
}

func (a *app) withDatabase(cmd *cobra.Command, f func(context.Context, *database) error) error {
	db, err := openDatabase(cmd.Context(), a.db)
	if err != nil {
		return err
	}
	defer db.Close()
	return f(cmd.Context(), db)
}
