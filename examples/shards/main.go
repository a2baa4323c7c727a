// Command shards is an example of work that is split among all replicas: tenants belong to shards,
// each shard has one owner at a time, and only the owner writes the invoices of its tenants. See
// README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/mandate-dev/mandate/examples/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "shards:", err)
		os.Exit(1)
	}
}

const usage = "shards [FLAGS] [work | sell | verify]: tenants' invoices, written by all members of a group.\nWithout a command: all of it in one go, on an embedded Redis and SQLite"

// run is the program without its process.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	var w worker
	var redis []string
	f := flag.NewFlagSet(usage, flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Func("redis", "`URL` of a Redis; repeat it for a quorum of 3 or 5", func(url string) error {
		redis = append(redis, url)
		return nil
	})
	path := f.String("db", "invoices.db", "the database: an SQLite file")
	f.StringVar(&w.id, "id", "", "work: this member's name (default: host name and process id)")
	f.IntVar(&w.shards, "shards", 12, "work: number of shards; the same for all members")
	f.DurationVar(&w.lease, "lease", 5*time.Second, "work: the shards of a member that dies move after it; the same for all members")
	f.DurationVar(&w.stall, "stall", 3*time.Second, "work: a shard whose work makes no progress for so long moves to another member")
	f.DurationVar(&w.hangAfter, "hang-after", 0, "work: hang on one tenant after so long, to see its shard move (0: don't)")
	child := f.Bool("exit-with-stdin", false, "end when standard input does, so that no child outlives its parent")
	if err := f.Parse(args); err != nil {
		return err
	}
	log, err := cli.Logger(stderr, "info")
	if err != nil {
		return err
	}
	if *child {
		ctx = cli.WhileOpen(ctx, stdin)
	}
	command := f.Arg(0)
	if command == "" {
		return demo(ctx, stdout)
	}
	db, err := openDatabase(ctx, *path)
	if err != nil {
		return err
	}
	defer db.Close()
	switch command {
	case "work":
		w.db, w.log = db, log
		return w.run(ctx, cli.RedisURLs(redis))
	case "sell":
		return db.sell(ctx, 60, time.Second/60)
	case "verify":
		return db.verify(ctx, stdout)
	default:
		return errors.New(usage)
	}
}
