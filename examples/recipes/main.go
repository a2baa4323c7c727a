// Command recipes is the programs of docs/recipes.md, one a file.
package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/mandate-dev/mandate/elector"
	"github.com/mandate-dev/mandate/examples/internal/cli"
)

func main() { cli.Main("recipes", run) }

const usage = "recipes --redis URL [FLAGS] service | schedule | postgres | controller | grpc: a program of docs/recipes.md"

var (
	programs = map[string]func(ctx context.Context, q *elector.Quorum) error{
		"service": service, "schedule": scheduled, "postgres": postgres, "controller": runOrDie, "grpc": serve,
	}
	lease                       time.Duration
	id, redisURL, listen, dbURL string
	jobs                        int
)

func run(ctx context.Context, args []string, stdin io.Reader, _, stderr io.Writer) error {
	f := cli.New(usage, stderr)
	slog.SetDefault(f.Log) // the electors log to it, too
	f.DurationVar(&lease, "lease", 10*time.Second, "the lease")
	f.StringVar(&id, "id", "", "the candidate's name")
	f.StringVar(&listen, "listen", "127.0.0.1:8080", "service, grpc: the server's address")
	f.StringVar(&dbURL, "database", "postgres://127.0.0.1/orders?sslmode=prefer", "postgres: its `URL`")
	f.IntVar(&jobs, "jobs", 1, "schedule: how many jobs there are")
	ctx, err := f.Parse(ctx, args, stdin)
	if err != nil {
		return err
	}
	program, known := programs[f.Arg(0)]
	if !known {
		return errors.New(usage)
	}
	redisURL = f.RedisURLs()[0]
	q, err := elector.Open(f.RedisURLs()...)
	if err != nil {
		return err
	}
	defer q.Close() // when the program's work has ended
	return program(ctx, q)
}
