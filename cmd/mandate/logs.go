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
)

// runsLong reports whether cmd leads or serves until a signal. Such a command must not stop when
// the reader of its log hangs or exits.
func runsLong(cmd *cobra.Command) bool {
	return slices.Contains([]string{"run", "supervise", "serve", "console", "exporter"}, cmd.Name())
}

// logHandler returns the handler of the log.
func (t *terminal) logHandler(cmd *cobra.Command, level slog.Level) slog.Handler {
	plain := handlerFor(t.stderr, t.logFormat, level)
	if !runsLong(cmd) && cmd.Name() != "watch" {
		return plain
	}
	t.logs = newLogQueue(t.stderr, func(lost int64) error {
		r := slog.NewRecord(time.Now(), slog.LevelWarn, "log records were dropped: the log's reader is gone or too slow", 0)
		r.AddAttrs(slog.Int64("count", lost))
		return plain.Handle(context.Background(), r)
	})
	return handlerFor(t.logs, t.logFormat, level)
}

func handlerFor(w io.Writer, name string, level slog.Level) slog.Handler {
	switch name {
	case "json":
		return slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: withUnit})
	case "text":
		return slog.NewTextHandler(w, &slog.HandlerOptions{Level: level})
	default: // prepare has reported the unknown format
		return slog.DiscardHandler
	}
}

// withoutEnd leaves out the error that ends Run: it is printed when this process ends.
type withoutEnd struct{ slog.Handler }

func (h withoutEnd) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == "run ended" {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

func (h withoutEnd) WithAttrs(attrs []slog.Attr) slog.Handler {
	return withoutEnd{h.Handler.WithAttrs(attrs)}
}

// withUnit formats a duration as the text log does: slog's JSON handler would omit the unit.
func withUnit(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// outliveReaders makes a command continue when the reader of its log hangs or exits.
func (t *terminal) outliveReaders(run func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		// Catch SIGPIPE and do not ignore it: child processes would inherit that. A write to a
		// closed pipe then fails and does not kill this process.
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
		t.stderr = t.logs // for what is printed at the end
		return run(cmd, args)
	}
}

// finalFlush is how long this process waits at its end for the reader of its output.
const finalFlush = time.Second

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
