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

// runsLong is true of the commands that lead, or serve, until a signal: a reader of their
// log that hangs or ends must not stop them.
func runsLong(cmd *cobra.Command) bool {
	return slices.Contains([]string{"run", "supervise", "serve", "console", "exporter"}, cmd.Name())
}

// logHandler is where the log goes.
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
	default: // it was reported
		return slog.DiscardHandler
	}
}

// withUnit writes a duration as the text log does: slog's JSON leaves the unit out.
func withUnit(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// outliveReaders has a command survive it when the reader of its log hangs, or goes.
func (a *app) outliveReaders(run func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		// Caught, and not ignored: what we start would inherit that. A write then
		// fails, and doesn't kill us.
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
		a.stderr = a.logs // for what is printed at the end
		return run(cmd, args)
	}
}

// finalFlush is how long the end of the program waits for the reader of its log.
const finalFlush = time.Second

// flushLogs ends the log.
func (a *app) flushLogs() {
	logOfRedis().Store(slog.New(slog.DiscardHandler))
	if a.logs != nil {
		a.logs.Close(finalFlush)
	}
}

// redisLog is what go-redis logs to: its own logger can't be changed while connections use
// it, and those of an earlier command of the same process may still do.
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
