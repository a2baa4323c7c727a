// Package cli has what the command lines of the example programs share.
package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9/logging"
)

// Main is the main function of a program: run is the program without its process. The first SIGINT
// or SIGTERM ends ctx.
func Main(name string, run func(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
}

// Flags are the flags of a program, with those that all programs have.
type Flags struct {
	*flag.FlagSet

	Log   *slog.Logger
	redis []string
	child *bool
}

// New returns the flags that all programs have. Log writes to stderr. It also silences the logger of
// go-redis, which prints every failed dial: the electors and the loops of the examples report what
// matters.
func New(usage string, stderr io.Writer) *Flags {
	logging.Disable()
	f := &Flags{FlagSet: flag.NewFlagSet(usage, flag.ContinueOnError), Log: slog.New(slog.NewTextHandler(stderr, nil))}
	f.SetOutput(stderr)
	f.Func("redis", "`URL` of a Redis; repeat it for a quorum of 3 or 5; the first one holds what is no election\n(env MANDATE_REDIS, comma separated)", func(url string) error {
		f.redis = append(f.redis, url)
		return nil
	})
	f.child = f.Bool("exit-with-stdin", false, "end when standard input does, so that no child outlives its parent")
	return f
}

// Parse parses args, of which at most one is a command. The context that it returns also ends when
// stdin does if that was requested.
func (f *Flags) Parse(ctx context.Context, args []string, stdin io.Reader) (context.Context, error) {
	if err := f.FlagSet.Parse(args); err != nil {
		return ctx, err
	}
	if f.NArg() > 1 {
		return ctx, errors.New(f.Name())
	}
	if !*f.child {
		return ctx, nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		cancel(errors.New("the parent has ended"))
	}()
	return ctx, nil
}

// RedisURLs returns the URLs of --redis, or else of MANDATE_REDIS.
func (f *Flags) RedisURLs() []string {
	if len(f.redis) > 0 {
		return f.redis
	}
	return strings.Split(os.Getenv("MANDATE_REDIS"), ",")
}

// Await calls ok every 10 ms until it returns true, for a minute or until ctx ends, and then returns an
// error.
func Await(ctx context.Context, ok func() bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("it did not happen within a minute"))
	defer cancel()
	for ; ctx.Err() == nil; Pause(ctx, 10*time.Millisecond) {
		if ok() {
			return nil
		}
	}
	return context.Cause(ctx)
}

// Pause sleeps for d, or until ctx ends.
func Pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
