// Command poller is the use case from which this project originates: a legacy application writes
// events into a table, workers handle them from a queue, and only the elected worker may feed the
// queue from the table. See README.md.
package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/mandate-dev/mandate/examples/internal/cli"
)

func main() { cli.Main("poller", run) }

const usage = "poller [FLAGS] [work | produce | verify]: one elected worker feeds the queue from a table; all workers consume it.\nWithout a command: all of it in one go, on an embedded Redis and SQLite"

// run is the program without its process.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	var w worker
	f := cli.New(usage, stderr)
	path := f.String("db", cmp.Or(os.Getenv("POLLER_DB"), "poller.db"), "the legacy database: an SQLite file, or postgres://... (env POLLER_DB)")
	f.StringVar(&w.id, "id", "", "work: this worker's name (default: host name and process id)")
	f.StringVar(&w.http, "http", "127.0.0.1:0", "work: where to serve /live and /ready (port 0: a free one)")
	f.DurationVar(&w.lease, "lease", 5*time.Second, "work: a leader that dies is replaced after it; the same for all workers")
	f.DurationVar(&w.late, "late", 30*time.Second, "work: how late a row with a lower id may commit and still be fed")
	f.DurationVar(&w.hangAfter, "hang-after", 0, "work: hang when leading for so long, to see the takeover (0: don't)")
	rate := f.Int("rate", 50, "produce: events per second")
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
	urls := f.RedisURLs()
	switch f.Arg(0) {
	case "work":
		w.db, w.log = db, f.Log
		return w.run(ctx, urls)
	case "produce":
		return db.produce(ctx, f.Log, *rate)
	case "verify":
		return verify(ctx, db, urls[0], stdout)
	default:
		return errors.New(usage)
	}
}
