package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/mandate-dev/mandate/cmd/mandate/internal/logqueue"
)

// runsLong reports whether cmd leads or serves until a signal. Such a command must not stop when
// the reader of its log hangs or exits.
func runsLong(cmd *cobra.Command) bool {
	return slices.Contains([]string{"run", "supervise", "serve", "console", "exporter"}, cmd.Name())
}

// logHandler returns the handler of the log.
func (a *app) logHandler(cmd *cobra.Command, opts *slog.HandlerOptions) slog.Handler {
	w := a.stderr
	if queued := runsLong(cmd) || cmd.Name() == "watch"; queued {
		a.logs = logqueue.New(a.stderr)
		w = a.logs
	}
	h := handlerFor(w, a.logFormat, opts)
	if a.logs != nil {
		h = logqueue.NewHandler(a.logs, h)
	}
	return h
}

func handlerFor(w io.Writer, name string, opts *slog.HandlerOptions) slog.Handler {
	switch name {
	case "json":
		opts.ReplaceAttr = withUnit
		return slog.NewJSONHandler(w, opts)
	case "text":
		return slog.NewTextHandler(w, opts)
	default: // prepare has reported the unknown format
		return slog.DiscardHandler
	}
}

// withUnit formats a duration as the text log does: slog's JSON handler would omit the unit.
func withUnit(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// outliveReaders makes a command continue when the reader of its log hangs or exits.
func (a *app) outliveReaders(run func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		// Catch SIGPIPE and do not ignore it: child processes would inherit that. A write to a
		// closed pipe then fails and does not kill this process.
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
		a.stderr = a.logs // for what is printed at the end
		return run(cmd, args)
	}
}

// finalFlush is how long this process waits at its end for the reader of its output.
const finalFlush = time.Second

func (a *app) flushLogs() {
	logOfRedis().Store(slog.New(slog.DiscardHandler))
	if a.logs != nil {
		a.logs.Close(finalFlush)
	}
}

// redisLog is the logger of go-redis. It is set only once, because go-redis does not allow changing
// its logger while connections use it, and those of an earlier command in the same process may
// still do so.
type redisLog struct{ atomic.Pointer[slog.Logger] }

func (l *redisLog) Printf(ctx context.Context, format string, v ...any) {
	l.Load().DebugContext(ctx, "go-redis", "message", fmt.Sprintf(format, v...))
}

var logOfRedis = sync.OnceValue(func() *redisLog {
	l := &redisLog{}
	l.Store(slog.New(slog.DiscardHandler))
	redis.SetLogger(l)
	return l
})
