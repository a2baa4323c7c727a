// Command shards is an example of work that is split among all replicas: tenants belong to shards,
// each shard has one owner at a time, and only the owner writes the invoices of its tenants. See
// README.md.
package main

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/mandate-dev/mandate/examples/internal/cli"
)

func main() { cli.Main("shards", run) }

const usage = "shards [FLAGS] [work | sell | verify]: tenants' invoices, written by all members of a group.\nWithout a command: all of it in one go, on an embedded Redis and SQLite"

// run is the program without its process.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	var w worker
	f := cli.New(usage, stderr)
	path := f.String("db", "invoices.db", "the database: an SQLite file")
	f.StringVar(&w.id, "id", "", "work: this member's name (default: host, process and a random part)")
	f.IntVar(&w.shards, "shards", 12, "work: number of shards; the same for all members")
	f.DurationVar(&w.lease, "lease", 5*time.Second, "work: the shards of a member that dies move after it; the same for all members")
	f.DurationVar(&w.stall, "stall", 3*time.Second, "work: a shard whose work makes no progress for so long moves to another member")
	f.DurationVar(&w.hangAfter, "hang-after", 0, "work: hang on one tenant after so long, to see its shard move (0: don't)")
	ctx, err := f.Parse(ctx, args, stdin)
	if err != nil {
		return err
	}
	if f.NArg() == 0 {
		return demo(ctx, stdout)
	}
	db, err := openDatabase(ctx, *path)
	if err != nil {
		return err
	}
	defer db.Close()
	switch f.Arg(0) {
	case "work":
		w.db, w.log = db, f.Log
		return w.run(ctx, f.RedisURLs())
	case "sell":
		return db.sell(ctx, 60, time.Second/60)
	case "verify":
		return db.verify(ctx, stdout)
	default:
		return errors.New(usage)
	}
}
